"""The n-gram drafter, also called prompt lookup: what followed the last n tokens when they appeared before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from specc.runtime.context_acceptance import MOST_CONTEXT
from specc.runtime.drafters.drafter import Proposal
from specc.runtime.drafters.text_index import SessionText, TextIndex, agreeing_tokens

Match: TypeAlias = Literal["recent", "leftmost"]


class NgramDrafter:
    """Looks up the last n committed tokens, the longest n first, and copies what followed an occurrence of them.

    A copy that reaches the end of the sequence goes on in its own drafts, so that a period repeats. A lookup without a
    match costs one look into each index for each n. For one n the request's own text goes before the session's.

    Args:
        min_ngram, max_ngram: n.
        match: which of several occurrences in the request's own text is copied.
        session: outputs of earlier requests; of those the most recent occurrence is copied. None looks at none.

    Source: drafters.md section 3.2.
    """

    def __init__(
        self, min_ngram: int, max_ngram: int, match: Match = "recent", session: SessionText | None = None
    ) -> None:
        self._sizes = tuple(range(max_ngram, min_ngram - 1, -1))
        self._taken = -1 if match == "recent" else 0
        self._session = session
        self._index = TextIndex(self._sizes)
        self._prompt = 0

    def begin(self, ids: Sequence[int]) -> None:
        """Index the prompt."""
        self._index = TextIndex(self._sizes)
        self._prompt = len(ids)
        self.observe(ids)

    def observe(self, ids: Sequence[int]) -> None:
        """Index committed tokens."""
        self._index.append(ids)

    def end(self) -> None:
        """Leave the output to the requests that follow."""
        if self._session is not None:
            self._session.add(self._index.ids[self._prompt :])

    def propose(self, limit: int) -> Proposal:
        """Return drafts, none when no n-gram at the end has occurred before."""
        known = self._index.ids
        for n in self._sizes:
            if n > len(known):
                continue
            followers = self._index.followers(known[-n:])
            if followers:
                start = followers[self._taken]
                context = agreeing_tokens(known, start, known, MOST_CONTEXT)
                return Proposal(tuple(self._copy(start, limit)), context=context)
            if self._session is not None:
                followers = self._session.index.followers(known[-n:])
                if followers:
                    context = agreeing_tokens(self._session.index.ids, followers[-1], known, MOST_CONTEXT)
                    return Proposal(self._session.copy(followers[-1], limit), context=context)
        return Proposal(())

    def _copy(self, start: int, limit: int) -> list[int]:
        known = self._index.ids
        drafts: list[int] = []
        for source in range(start, start + limit):
            drafts.append(known[source] if source < len(known) else drafts[source - len(known)])
        return drafts
