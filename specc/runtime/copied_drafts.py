"""Which drafts that were copied from the text a step verifies: those that pay, as far as a request can afford them.

A request may lose a fiftieth of its speed to wrong drafts, and no more: every round is charged the steps of plain
decoding that it took beyond its tokens, and a step verifies only as many drafts as could all be wrong without the
account passing `LOSS_A_TOKEN` of the tokens so far. Short texts have `FIRST_LOSS`, or nothing could ever be tried. In a
batch a request is charged calls as wide as its own drafts; a neighbour's longer ones are on the neighbour's account.
"""

from __future__ import annotations

from functools import partial
from math import ceil
from typing import Final

from specc.runtime.call_costs import CallCosts
from specc.runtime.context_acceptance import ContextAcceptance
from specc.speculation.expected import best_gamma

LOSS_A_TOKEN: Final = 0.02
"""Steps of plain decoding that a request may lose for each of its tokens: "0.98 of the speed without speculation"."""
FIRST_LOSS: Final = 1.15
"""Steps that it may lose however short it is, so of texts of 58 tokens and more the share above holds: about four wrong
drafts in one call (docs/performance.md), the least that can start a copy where little of the text agrees."""
MOST_GAINED: Final = 2.0
"""Gains beyond that are not held against later losses: where a text stops repeating, drafts end soon."""


class CopiedDrafts:
    """The copied drafts of one request, where step costs were measured.

    Args:
        costs: of target calls.
        min_speedup: below this predicted speed-up no draft is worth it; 0 takes the best number whatever was lost.
    """

    def __init__(self, costs: CallCosts, min_speedup: float) -> None:
        self._costs = costs
        self._min_speedup = min_speedup
        self._acceptance = ContextAcceptance()
        self._tokens = 0
        self._lost = 0.0

    @property
    def lost(self) -> float:
        """Steps of plain decoding that rounds took beyond the tokens that they gave; negative is a gain."""
        return self._lost

    def expected_acceptance(self, context: int, drafts: int) -> list[float]:
        """Return the estimated conditional acceptance of that many drafts with that much context."""
        return self._acceptance.conditional(context, drafts)

    def worth(self, context: int, drafts: int, batch: int) -> int:
        """Return how many of the drafts to verify: of those that can be afforded, those of the largest speed-up.

        Args:
            context: of the proposal, at least 1.
            drafts: in it.
            batch: rows that are active, which the costs depend on.
        """
        affordable = next((count for count in range(drafts, 0, -1) if self._tokens_until(count, batch) <= 0), 0)
        acceptance = self.expected_acceptance(context, affordable)
        choice = best_gamma(acceptance, partial(self._costs.seconds, batch), affordable)
        return choice.gamma if choice.speedup >= self._min_speedup else 0

    def wait(self, batch: int) -> int:
        """Return after how many more tokens a draft can be afforded again; 0 where one can be now."""
        return max(0, self._tokens_until(1, batch))

    def count_round(self, context: int, proposed: int, accepted: int, batch: int) -> None:
        """Take note of a round."""
        self._acceptance.add(context, proposed, accepted)
        self.pass_tokens(accepted + 1)
        self._lost = max(-MOST_GAINED, self._lost + self._loss(batch, proposed) - accepted)

    def pass_tokens(self, tokens: int) -> None:
        """Let tokens pass: what was observed before them counts less, and they may cost a little."""
        self._acceptance.age(tokens)
        self._tokens += tokens

    def forget_acceptance(self) -> None:
        """Start the estimates anew; what was lost stays lost."""
        self._acceptance.clear()

    def _tokens_until(self, drafts: int, batch: int) -> int:
        """Return the tokens until that many drafts can be afforded, 0 or less where they can be now."""
        after = self._lost + self._loss(batch, drafts)
        return 0 if after <= FIRST_LOSS or self._min_speedup == 0 else ceil(after / LOSS_A_TOKEN) - self._tokens

    def _loss(self, batch: int, drafts: int) -> float:
        """Return the steps that a round of that many wrong drafts takes beyond its token."""
        return self._costs.seconds(batch, drafts + 1) / self._costs.seconds(batch, 1) - 1
