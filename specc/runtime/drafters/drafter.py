"""What a drafter is to the scheduler: it guesses the tokens after the committed ones and hears which were right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Drafter(Protocol):
    """Drafts for one request. `propose` depends on committed tokens alone: rejected drafts leave no trace."""

    def begin(self, ids: Sequence[int]) -> None:
        """Start a request with its prompt."""

    def propose(self, limit: int) -> list[int]:
        """Return up to `limit` drafts of the tokens after the last committed one; none is a legal proposal."""

    def observe(self, ids: Sequence[int]) -> None:
        """Take the tokens that were committed since the last call, in order."""
