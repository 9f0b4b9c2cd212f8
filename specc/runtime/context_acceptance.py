"""Live acceptance of drafts that were copied from the text, by how much of the text before them agrees with the place.

A copy whose last 2 tokens agree is right half of the time, one whose last 13 agree nearly always, whatever the model
writes; after each accepted draft one token more agrees. So a request starts from what was measured on other texts and
soon follows its own.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

GROUPS: Final = (1, 2, 3, 4, 5, 7, 13)
"""Least number of tokens that agree, of each group with one estimate."""
PRIORS: Final = (0.18, 0.52, 0.59, 0.75, 0.78, 0.88, 0.96)
"""Acceptance by group, of n-gram drafts at every place of 80 answers of 96 tokens: SmolLM2-135M in f32 and in three
forms of w4a16, ten requests to copy and ten for free text (docs/performance.md). Copying and free text differ little:
0.21 and 0.23 where one token agrees, 0.49 and 0.51 where two do."""
MOST_CONTEXT: Final = GROUPS[-1]
"""More tokens than that tell nothing more."""
PRIOR_DRAFTS: Final = 8.0
"""How many observed drafts a prior counts as much as."""
KEPT_A_TOKEN: Final = 0.99
"""What remains of an observation with every token: after 69 tokens it counts half, so what failed is tried again."""


class ContextAcceptance:
    """Counts of the drafts that were accepted and evaluated in each group."""

    def __init__(self) -> None:
        self._kept = [0.0] * len(GROUPS)
        self._evaluated = [0.0] * len(GROUPS)

    def conditional(self, context: int, drafts: int) -> list[float]:
        """Return the estimated conditional acceptance of each draft.

        Args:
            context: tokens that agree before the first draft, at least 1; before draft k there are k more.
            drafts: how many.
        """
        groups = [_group(context + k) for k in range(drafts)]
        return [(self._kept[g] + PRIOR_DRAFTS * PRIORS[g]) / (self._evaluated[g] + PRIOR_DRAFTS) for g in groups]

    def add(self, context: int, proposed: int, accepted: int) -> None:
        """Take a round: of `proposed` drafts the first `accepted` were kept."""
        for k in range(min(proposed, accepted + 1)):
            group = _group(context + k)
            self._evaluated[group] += 1
            self._kept[group] += k < accepted

    def age(self, tokens: int) -> None:
        """Let that many tokens pass."""
        remains = KEPT_A_TOKEN**tokens
        self._kept = [remains * count for count in self._kept]
        self._evaluated = [remains * count for count in self._evaluated]

    def clear(self) -> None:
        """Forget all rounds."""
        self._kept = [0.0] * len(GROUPS)
        self._evaluated = [0.0] * len(GROUPS)


def _group(context: int) -> int:
    return bisect_right(GROUPS, context) - 1
