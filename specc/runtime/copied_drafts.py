"""Which drafts that were copied from the text a step verifies, and what that gained or lost lately."""

from __future__ import annotations

from collections import deque
from functools import partial

from specc.runtime.call_costs import CallCosts
from specc.runtime.context_acceptance import ContextAcceptance
from specc.speculation.expected import best_gamma


class CopiedDrafts:
    """The copied drafts of one request, where step costs were measured.

    Args:
        window: rounds that `lost` looks back.
        costs: of target calls.
    """

    def __init__(self, window: int, costs: CallCosts) -> None:
        self._costs = costs
        self._acceptance = ContextAcceptance()
        self._losses: deque[float] = deque(maxlen=window)

    @property
    def rounds(self) -> int:
        """Rounds that `lost` looks back at."""
        return len(self._losses)

    @property
    def lost(self) -> float:
        """Steps of plain decoding that the last rounds took beyond the tokens that they gave; negative is a gain."""
        return sum(self._losses)

    def expected_acceptance(self, context: int, drafts: int) -> list[float]:
        """Return the estimated conditional acceptance of that many drafts with that much context."""
        return self._acceptance.conditional(context, drafts)

    def worth(self, context: int, drafts: int, batch: int, min_speedup: float) -> int:
        """Return how many of the drafts to verify: those of the largest predicted speed-up.

        Args:
            context: of the proposal, at least 1.
            drafts: in it.
            batch: rows that are active, which the costs depend on.
            min_speedup: below this predicted speed-up none is worth it.
        """
        acceptance = self.expected_acceptance(context, drafts)
        choice = best_gamma(acceptance, partial(self._costs.seconds, batch), drafts)
        return choice.gamma if choice.speedup >= min_speedup else 0

    def count_round(self, context: int, proposed: int, accepted: int, batch: int) -> None:
        """Take note of a round."""
        self._acceptance.add(context, proposed, accepted)
        self.pass_tokens(accepted + 1)
        steps = self._costs.seconds(batch, proposed + 1) / self._costs.seconds(batch, 1)
        self._losses.append(steps - (accepted + 1))

    def pass_tokens(self, tokens: int) -> None:
        """Let tokens pass: what was observed before them counts less."""
        self._acceptance.age(tokens)

    def forget_losses(self) -> None:
        """Start `lost` anew."""
        self._losses.clear()

    def clear(self) -> None:
        """Forget everything."""
        self._acceptance.clear()
        self.forget_losses()
