"""What calls of an engine cost and which shapes it takes: the basis of grouping rows and of choosing gamma."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from specc.bundle.manifest import EngineSpec
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
    """

    def __init__(self, spec: EngineSpec, table: StepCostTable | None, scale: float = 1.0) -> None:
        self._profiles = spec.profiles
        self._scale = scale
        self._table = table
        self._known: dict[tuple[int, int], float] = {}

    @property
    def measured(self) -> bool:
        """Whether costs were measured on this bundle."""
        return self._table is not None

    def seconds(self, batch: int, tokens: int) -> float:
        """Return the cost of a call of `batch` rows of `tokens` tokens."""
        key = (batch, tokens)
        if key not in self._known:
            nominal = self._scale * (1.0 + batch * tokens / NOMINAL_FIXED_TOKENS)
            self._known[key] = nominal if self._table is None else self._table.seconds(batch, tokens)
        return self._known[key]

    def admitted(self, needed: CallShape) -> CallShape | None:
        """Return the smallest shape of a profile that holds the needed one, None when no profile does.

        Tokens and logit rows may be padded up to a profile's minimum; rows may not.
        """
        shapes = [
            CallShape(needed.batch, max(needed.tokens, p.tokens[0]), max(needed.logit_rows, p.logit_rows[0]))
            for p in self._profiles
            if p.batch[0] <= needed.batch <= p.batch[2]
            and needed.tokens <= p.tokens[2]
            and needed.logit_rows <= p.logit_rows[2]
        ]
        return min(shapes, key=lambda shape: (shape.tokens, shape.logit_rows), default=None)


class DraftCosts:
    """Costs of drafting with an engine of its own; without one drafts are free.

    Args:
        calls: costs of draft calls, None without a draft engine.
    """

    def __init__(self, calls: CallCosts | None) -> None:
        self._calls = calls

    @property
    def measured(self) -> bool:
        """Whether the costs were measured, or there are none."""
        return self._calls is None or self._calls.measured

    def seconds(self, batch: int, drafts: int) -> float:
        """Return the cost of that many drafts for each of `batch` rows: one call a draft, the first of two tokens."""
        if self._calls is None or drafts == 0:
            return 0.0
        return self._calls.seconds(batch, 2) + (drafts - 1) * self._calls.seconds(batch, 1)


def costs_from_tables(
    target: EngineSpec, target_table: StepCostTable | None, draft: EngineSpec | None, draft_table: StepCostTable | None
) -> tuple[CallCosts, CallCosts | None]:
    """Return the costs of target calls and of draft calls in one unit: measured where all engines were measured.

    A nominal draft call costs the draft's share of the target's layers.
    """
    if draft is None:
        return CallCosts(target, target_table), None
    if target_table is not None and draft_table is not None:
        return CallCosts(target, target_table), CallCosts(draft, draft_table)
    share = len(draft.caches) / max(len(target.caches), 1)
    return CallCosts(target, None), CallCosts(draft, None, share)
