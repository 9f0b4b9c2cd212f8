"""Which place of a text its end is a copy of, followed through single tokens that the copy changes.

Whoever repeats a text with small changes leaves it for a token and goes on behind it. The n-grams at the end then match
nothing, or another place that begins alike, until several tokens agree again; what was copied before tells at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from specc.runtime.context_acceptance import MOST_CONTEXT

LEAST_COPIED: Final = 5
"""Tokens in a row that make a copy, whose next other token is a change. Fewer agree by chance too often."""
LONG_COPIED: Final = 7
"""A copy of so many goes on behind its change: once a token there agrees, drafts are as often right as where so many
tokens agree, which is nine times of ten."""
AFTER_CHANGE: Final = 2
"""Behind the change of a shorter copy, and right behind a changed token where no n-gram matches, drafts are as often
right as where two tokens agree, which is half of the time (docs/drafting.md)."""


@dataclass(frozen=True)
class Place:
    """Where in a text the next token may be copied from, and the context of `Proposal` there."""

    at: int
    context: int


NOWHERE: Final = Place(0, 0)


class FollowedCopy:
    """The place that tokens are copied from while they come; what it is follows from the text alone."""

    def __init__(self) -> None:
        self._place = NOWHERE
        self._left = NOWHERE

    @property
    def place(self) -> Place:
        """Where the next token is copied from, `NOWHERE` while nothing is copied."""
        return self._place

    @property
    def behind_change(self) -> Place:
        """Where it may be copied from if the last token replaced one; `NOWHERE` if that token left no copy."""
        return NOWHERE if self._left == NOWHERE else Place(self._left.at + 1, AFTER_CHANGE)

    @property
    def ended(self) -> bool:
        """Whether nothing is followed, and no copy was left with the last token."""
        return self._place == self._left == NOWHERE

    def begin(self, place: Place) -> None:
        """Follow a copy from a place on; `NOWHERE` follows none."""
        self._place, self._left = place, NOWHERE

    def observe(self, known: Sequence[int], token: int) -> None:
        """Take the token that follows `known`: it goes on with the copy, leaves it, or goes on behind a change."""
        for place in self._expected():
            if known[place.at] == token:
                self.begin(Place(place.at + 1, min(place.context + 1, MOST_CONTEXT)))
                return
        repeated = self._place.at == len(known) - 1  # a run of one token: behind its end stands the new token alone
        left = self._place if self._place.context >= LEAST_COPIED and not repeated else NOWHERE
        self._place, self._left = NOWHERE, left

    def _expected(self) -> list[Place]:
        """Return where the next token is copied from; behind a change, whether it replaced a token or was put in."""
        if self._left == NOWHERE:
            return [self._place] if self._place != NOWHERE else []
        context = LONG_COPIED if self._left.context >= LONG_COPIED else AFTER_CHANGE
        return [Place(self._left.at + 1, context - 1), Place(self._left.at, context - 1)]
