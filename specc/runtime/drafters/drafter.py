"""What a drafter is to the scheduler: it guesses the tokens after the committed ones and hears which were right.

There are two forms. A `Drafter` serves one request and costs next to nothing, so each is asked alone. A `BatchDrafter`
serves all rows of a step at once, because its calls of a draft engine are shared by the rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from specc.runtime.draft_law import DraftLaw
from specc.runtime.request import Sampling


@dataclass(frozen=True)
class Proposal:
    """Drafts of the tokens after the last committed one; none is a legal proposal.

    Attributes:
        tokens: the drafts.
        q: what they were drawn from, one row a draft; None when they were not drawn but determined.
        context: of drafts copied from a text, how many tokens before them are the same as before the place, as far as
            that tells anything; behind a change of the copy, with how many the drafts are as often right; 0 of others.
    """

    tokens: tuple[int, ...]
    q: DraftLaw | None = None
    context: int = 0

    def cut(self, count: int) -> Proposal:
        """Return the proposal of the first drafts alone."""
        q = None if self.q is None else self.q.cut(count)
        return replace(self, tokens=self.tokens[:count], q=q)


class Drafter(Protocol):
    """Drafts for one request. `propose` depends on committed tokens alone: rejected drafts leave no trace."""

    def begin(self, ids: Sequence[int]) -> None:
        """Start a request with its prompt."""

    def propose(self, limit: int) -> Proposal:
        """Return up to `limit` drafts of the tokens after the last committed one."""

    def observe(self, ids: Sequence[int]) -> None:
        """Take the tokens that were committed since the last call, in order."""

    def end(self) -> None:
        """Hear that the request is finished, with all that was observed."""


@dataclass(frozen=True)
class Ask:
    """What one row asks of a batch drafter.

    Attributes:
        ids: its committed tokens; the last is the anchor.
        limit: most drafts; 0 asks for none yet, but tells what the drafts will follow.
        sampling: of the request.
    """

    ids: Sequence[int]
    limit: int
    sampling: Sampling


class BatchDrafter(Protocol):
    """Drafts for the rows of a session, each in its slot. The text never depends on it."""

    def begin(self, slot: int) -> None:
        """Forget what the slot held: another request enters it."""

    def propose(self, asks: Mapping[int, Ask], cached: Mapping[int, int]) -> dict[int, Proposal]:
        """Return the proposal of every row that asks for drafts.

        Args:
            asks: by slot.
            cached: valid rows of the target's caches, of every slot that holds a request.
        """
