"""Speculation against AR decoding: seconds of a round, tokens it yields, and what follows from both.

speed-up = E(acceptance, gamma) * T(B, 1) / (T(B, gamma + 1) + T_draft(B, gamma) + T_round). The seconds come
from `specc/plan/roofline.py`, or after a build from the measured step costs in its place. Derived in docs/planning.md.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from specc.plan.device import SPREAD, Device
from specc.plan.priors import acceptance_from_mal
from specc.plan.roofline import call_seconds, draft_seconds, prefill_seconds
from specc.plan.shape import ModelShape
from specc.speculation.expected import best_gamma, expected_tokens, predicted_speedup

CROSSOVER_LIMIT: Final = 4096
"""Largest batch at which the end of the gain is looked for."""


@dataclass(frozen=True)
class Interval:
    """A number that is not known exactly."""

    low: float
    mid: float
    high: float


@dataclass(frozen=True)
class Acceptance:
    """Chances that the draft at each position is accepted given that all before were: three readings.

    Attributes:
        low, mid, high: [k] each; positions beyond the last repeat it.
        source: where they come from.
    """

    low: tuple[float, ...]
    mid: tuple[float, ...]
    high: tuple[float, ...]
    source: str

    def reaching(self, reading: tuple[float, ...], gamma: int) -> tuple[float, ...]:
        """Return a reading for exactly `gamma` positions."""
        return (reading + reading[-1:] * gamma)[:gamma]


def rounded(value: float) -> float:
    """Return a number to four digits, as a plan states predictions."""
    return float(f"{value:.4g}")


class RoundCosts(ABC):
    """What calls cost, whoever says so, and what follows for speculation."""

    @abstractmethod
    def ar_seconds(self, batch: int) -> float:
        """Return the seconds of one AR step."""

    @abstractmethod
    def verify_seconds(self, batch: int, gamma: int) -> float:
        """Return the seconds of one target call that verifies `gamma` drafts a row."""

    @abstractmethod
    def drafting_seconds(self, batch: int, gamma: int) -> float:
        """Return what a round spends beside the target's call; 0 where nothing is drafted."""

    @abstractmethod
    def ttft_seconds(self) -> tuple[float, float]:
        """Return the seconds to the first token of a typical prompt: of AR, and with the draft's prefill."""

    @abstractmethod
    def spread(self) -> float:
        """Return the share of a speed-up by which these seconds may miss."""

    def speedup(self, acceptance: tuple[float, ...], batch: int, gamma: int) -> float:
        """Return the predicted tokens per second over those of AR decoding, for one reading of the acceptance."""
        return predicted_speedup(
            acceptance,
            gamma,
            lambda tokens: self.verify_seconds(batch, tokens - 1),
            lambda drafts: self.drafting_seconds(batch, drafts),
        )

    def speedup_interval(self, acceptance: Acceptance, batch: int, gamma: int) -> Interval:
        """Return the speed-up over the acceptance's interval, widened by how far the seconds may be wrong."""
        if gamma == 0:
            return Interval(1.0, 1.0, 1.0)
        low, mid, high = (
            self.speedup(reading, batch, gamma) for reading in (acceptance.low, acceptance.mid, acceptance.high)
        )
        return Interval(low * (1 - self.spread()), mid, high * (1 + self.spread()))

    def best_gamma(self, acceptance: Acceptance, batch: int, max_gamma: int) -> int:
        """Return the gamma from 0 to `max_gamma` with the largest speed-up at the middle acceptance."""
        return best_gamma(
            acceptance.mid,
            lambda tokens: self.verify_seconds(batch, tokens - 1),
            max_gamma,
            lambda drafts: self.drafting_seconds(batch, drafts),
        ).gamma

    def break_even(self, batch: int, gamma: int) -> float | None:
        """Return the acceptance, equal at all positions, at which speculation is as fast as AR; None: at no one."""
        round_seconds = self.verify_seconds(batch, gamma) + self.drafting_seconds(batch, gamma)
        tokens = round_seconds / self.ar_seconds(batch)
        return acceptance_from_mal(tokens, gamma) if gamma > 0 and tokens <= gamma + 1 else None

    def paying_batches(
        self, acceptance: Acceptance, max_gamma: int, limit: int = CROSSOVER_LIMIT
    ) -> tuple[int, int | None] | None:
        """Return the smallest batch at which a gamma pays and the smallest from which none does; None: none pays.

        The second is None where speculation still pays at `limit`, the largest batch that is looked at. Powers of two
        are tried and the two borders found by halving. Small batches of a mixture of experts may lose where larger ones
        gain: verifying one text reads more experts, while many rows reach all of them anyhow.
        """

        def pays(batch: int) -> bool:
            return self.best_gamma(acceptance, batch, max_gamma) > 0

        tried = sorted({1 << power for power in range(limit.bit_length())} | {limit})
        paying = [place for place, batch in enumerate(tried) if pays(batch)]
        if not paying:
            return None
        first, last = paying[0], paying[-1]
        begin = 1 if first == 0 else _border(tried[first - 1], tried[first], pays)
        if tried[last] == limit:
            return begin, None
        return begin, _border(tried[last], tried[last + 1], lambda batch: not pays(batch))

    def tokens(self, acceptance: Acceptance, gamma: int) -> Interval:
        """Return the expected tokens of a round, the target's own included."""
        low, mid, high = (
            expected_tokens(acceptance.reaching(reading, gamma))
            for reading in (acceptance.low, acceptance.mid, acceptance.high)
        )
        return Interval(low, mid, high)


@dataclass(frozen=True)
class CostModel(RoundCosts):
    """One target with one drafter on one device, priced by rooflines.

    Attributes:
        target: of the target.
        draft: of the model that drafts one token a call; None: drafting costs no call.
        device: where both run.
        context: cached tokens of a row.
        chunk: prompt tokens of one prefill call.
        even: calls of the target are padded to an even number of tokens (`numerics: invariant`).
        whole: drafts are made in the call that verifies them.
    """

    target: ModelShape
    draft: ModelShape | None
    device: Device
    context: int
    chunk: int
    even: bool = False
    whole: bool = False

    def ar_seconds(self, batch: int) -> float:
        """Return the seconds of one AR step."""
        return self.verify_seconds(batch, 0)

    def verify_seconds(self, batch: int, gamma: int) -> float:
        """Return the seconds of one target call that verifies `gamma` drafts a row."""
        tokens = gamma + 1
        if self.even:
            tokens += batch * tokens % 2
        return call_seconds(self.target, self.device, batch, tokens, self.context)

    def drafting_seconds(self, batch: int, gamma: int) -> float:
        """Return what a round spends beside the target's call; 0 where nothing is drafted."""
        if gamma == 0:
            return 0.0
        overhead = self.device.overheads.round
        if self.draft is None:
            return overhead
        apart = not self.whole
        return overhead + draft_seconds(self.draft, self.device, batch, gamma, context=self.context, apart=apart)

    def round_seconds(self, batch: int, gamma: int) -> float:
        """Return the seconds of one round of `gamma` drafts a row and their verification."""
        return self.verify_seconds(batch, gamma) + self.drafting_seconds(batch, gamma)

    def ttft_seconds(self) -> tuple[float, float]:
        """Return the seconds to the first token of `context` prompt tokens: of AR, and with the draft's prefill."""
        alone = prefill_seconds(self.target, self.device, self.context, self.chunk)
        if self.draft is None:
            return alone, alone
        return alone, alone + prefill_seconds(self.draft, self.device, self.context, self.chunk)

    def spread(self) -> float:
        """Return the share that the validation found."""
        return SPREAD


def _border(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """Return the smallest number above `low` that holds, where `low` does not and `high` does."""
    while high - low > 1:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle
    return high
