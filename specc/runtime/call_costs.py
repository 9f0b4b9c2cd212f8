"""What calls of an engine cost and which shapes it takes: the basis of grouping rows and of choosing gamma."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from specc.bundle.manifest import EngineSpec, Numerics
from specc.speculation.step_costs import StepCostTable

# Without measured costs: a call costs as much as this many tokens of it. Between CPUs (about 10 for int4, 30 for f32,
# cpu-performance.md section 3) and GPUs (about 200 for bf16, drafters.md section 7).
NOMINAL_FIXED_TOKENS: Final = 64


@dataclass(frozen=True)
class CallShape:
    """B rows of S tokens with R logit rows each."""

    batch: int
    tokens: int
    logit_rows: int


class CallCosts:
    """Costs of the calls of one engine, measured where the bundle has a certificate.

    Args:
        spec: the engine, whose profiles bound the shapes.
        table: measured step costs; None takes the nominal ones, whose unit is not the second.
        scale: of nominal costs, where another engine's are the unit.
        numerics: `invariant` pads tokens and logit rows until calls have an even number of each.
    """

    def __init__(
        self, spec: EngineSpec, table: StepCostTable | None, scale: float = 1.0, numerics: Numerics = "fastest"
    ) -> None:
        self._even = numerics == "invariant"
        self._profiles = spec.profiles
        self._buckets = spec.batch_buckets
        self._scale = scale
        self._table = table
        self._known: dict[tuple[int, int], float] = {}

    @property
    def measured(self) -> bool:
        """Whether costs were measured on this bundle."""
        return self._table is not None

    def seconds(self, batch: int, tokens: int) -> float:
        """Return the cost of a call of `batch` rows of `tokens` tokens, padding included."""
        tokens = self._padded(batch, tokens)
        key = (batch, tokens)
        if key not in self._known:
            nominal = self._scale * (1.0 + batch * tokens / NOMINAL_FIXED_TOKENS)
            self._known[key] = nominal if self._table is None else self._table.seconds(batch, tokens)
        return self._known[key]

    @property
    def most_rows(self) -> int:
        """B of the largest call."""
        return max(profile.batch[2] for profile in self._profiles)

    def rows(self, needed: int) -> int:
        """Return B of the call that serves this many rows: the smallest bucket, where the engine has some."""
        return next((bucket for bucket in self._buckets if bucket >= needed), needed)

    def slots(self, needed: int) -> int:
        """Return how many slots calls of this many rows may reach: all, where B is padded, so that any range fits."""
        return max(needed, self.most_rows) if self._buckets else needed

    def admitted(self, needed: CallShape) -> CallShape | None:
        """Return the smallest shape of a profile that holds the needed one, None when no profile does.

        Tokens and logit rows may be padded up to a profile's minimum, and to an even number; rows up to a bucket.
        """
        batch = self.rows(needed.batch)
        tokens, logit_rows = (self._padded(batch, size) for size in (needed.tokens, needed.logit_rows))
        needed = CallShape(batch, tokens, logit_rows)
        shapes = [
            CallShape(needed.batch, max(needed.tokens, p.tokens[0]), max(needed.logit_rows, p.logit_rows[0]))
            for p in self._profiles
            if p.batch[0] <= needed.batch <= p.batch[2]
            and needed.tokens <= p.tokens[2]
            and needed.logit_rows <= p.logit_rows[2]
        ]
        return min(shapes, key=lambda shape: (shape.tokens, shape.logit_rows), default=None)

    def _padded(self, batch: int, size: int) -> int:
        """Return the tokens or logit rows of each of `batch` rows after padding."""
        return size + (batch * size) % 2 if self._even else size


@dataclass(frozen=True)
class BurstCosts:
    """Costs of the calls of an unrolled draft engine, each of `steps` drafts a row."""

    calls: CallCosts
    steps: int

    def pays(self, drafts: int) -> bool:
        """Return whether a row that wants this many more drafts takes a burst: where it wants most of one."""
        return 2 * drafts > self.steps


@dataclass(frozen=True)
class WholeCosts:
    """Measured costs of an engine that drafts and verifies in one call.

    Attributes:
        calls: of that engine.
        target: of the target engine, whose verification is part of such a call.
        steps: drafts of a call, whether or not a row wants all of them.
    """

    calls: CallCosts
    target: CallCosts
    steps: int

    def drafting_seconds(self, batch: int, drafts: int) -> float:
        """Return what such a call costs beyond a verification of that many drafts by the target engine."""
        return max(self.calls.seconds(batch, 1) - self.target.seconds(batch, drafts + 1), 0.0)


class DraftCosts:
    """Costs of drafting with an engine of its own; without one drafts are free.

    Args:
        calls: costs of single draft calls, None without a draft engine.
        burst: costs of unrolled calls, None without such an engine.
        whole: costs of calls that also verify; None without such an engine, or where nothing was measured.
    """

    def __init__(
        self, calls: CallCosts | None, burst: BurstCosts | None = None, whole: WholeCosts | None = None
    ) -> None:
        self._calls = calls
        self._burst = burst
        self._whole = whole

    @property
    def measured(self) -> bool:
        """Whether the costs were measured, or there are none."""
        return self._calls is None or self._calls.measured

    def whole_pays(self, batch: int, drafts: int) -> bool:
        """Return whether one call that drafts and verifies costs at most what the calls apart do, as far as known."""
        if self._whole is None or drafts > self._whole.steps:
            return True
        return self._whole.drafting_seconds(batch, drafts) <= self._apart(batch, drafts)

    def seconds(self, batch: int, drafts: int) -> float:
        """Return the cost of that many drafts for each of `batch` rows, beside their verification."""
        apart = self._apart(batch, drafts)
        if self._whole is None or not 0 < drafts <= self._whole.steps:
            return apart
        return min(apart, self._whole.drafting_seconds(batch, drafts))

    def _apart(self, batch: int, drafts: int) -> float:
        """Return the cost of the calls that `EngineDrafter` makes: bursts while they pay, then one call a draft.

        The first call has two tokens a row.
        """
        if self._calls is None:
            return 0.0
        cost, tokens = 0.0, 2
        while drafts > 0:
            if self._burst is not None and self._burst.pays(drafts):
                cost += self._burst.calls.seconds(batch, tokens)
                drafts -= self._burst.steps
            else:
                cost += self._calls.seconds(batch, tokens)
                drafts -= 1
            tokens = 1
        return cost


@dataclass(frozen=True)
class MeasuredCosts:
    """Step costs of a bundle's engines; None where nothing was measured, or where there is no such engine."""

    target: StepCostTable | None = None
    draft: StepCostTable | None = None
    burst: StepCostTable | None = None
    whole: StepCostTable | None = None


@dataclass(frozen=True)
class EngineCosts:
    """Costs of the calls of all engines, in one unit; None for engines that a bundle has not.

    `whole` is also None where not all were measured: it tells the price of a round beside that of its calls.
    """

    target: CallCosts
    draft: CallCosts | None
    burst: BurstCosts | None
    whole: WholeCosts | None = None

    @property
    def drafting(self) -> DraftCosts:
        """Costs of drafting."""
        return DraftCosts(self.draft, self.burst, self.whole)


def costs_from_tables(
    target: EngineSpec,
    draft: EngineSpec | None,
    burst: EngineSpec | None,
    measured: MeasuredCosts,
    *,
    numerics: Numerics = "fastest",
    early_layers: int | None = None,
    whole: EngineSpec | None = None,
) -> EngineCosts:
    """Return the costs of all calls in one unit: measured where all engines were measured.

    A nominal draft call costs the draft's share of the target's layers, a burst that for each of its steps.

    Args:
        target: the target engine.
        draft: its draft engine, None without one.
        burst: the unrolled one, None without one.
        measured: step costs.
        numerics: how calls of the target are padded.
        early_layers: layers of an early call of the target; None: the draft runs all layers that it has caches of.
        whole: the engine that drafts and verifies in one call, None without one.
    """
    if draft is None:
        return EngineCosts(CallCosts(target, measured.target, numerics=numerics), None, None)
    all_measured = None not in (measured.target, measured.draft) and (burst is None or measured.burst is not None)
    tables = measured if all_measured else MeasuredCosts()
    share = (len(draft.caches) if early_layers is None else 2 * early_layers) / max(len(target.caches), 1)
    bursts = None if burst is None else CallCosts(burst, tables.burst, share * burst.steps)
    priced = CallCosts(target, tables.target, numerics=numerics)
    return EngineCosts(
        target=priced,
        draft=CallCosts(draft, tables.draft, share),
        burst=None if burst is None or bursts is None else BurstCosts(bursts, burst.steps),
        whole=None
        if whole is None or tables.whole is None
        else WholeCosts(CallCosts(whole, tables.whole), priced, whole.steps),
    )
