"""The n-gram drafter, also called prompt lookup: what followed the last n tokens when they appeared before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from specc.runtime.context_acceptance import MOST_CONTEXT
from specc.runtime.drafters.drafter import Proposal
from specc.runtime.drafters.followed_copy import NOWHERE, FollowedCopy, Place
from specc.runtime.drafters.text_index import SessionText, TextIndex, agreeing_tokens

Match: TypeAlias = Literal["recent", "leftmost"]


class NgramDrafter:
    """Looks up the last n committed tokens, the longest n first, and copies what followed an occurrence of them.

    Of the place in the request's own text, that of a copy that is under way, also behind a token that it changed, and
    that in the session's text the one of most context goes on, the first of these on ties. Right behind a changed token
    the copy goes on where nothing matches. A copy that reaches the end of the sequence goes on in its own drafts, so
    that a period repeats. A lookup without a match costs one look into each index for each n.

    Args:
        min_ngram, max_ngram: n; a copy under way needs a context of min_ngram too.
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
        self._copied = FollowedCopy()
        self._prompt = 0

    def begin(self, ids: Sequence[int]) -> None:
        """Index the prompt."""
        self._index = TextIndex(self._sizes)
        self._copied = FollowedCopy()
        self._prompt = len(ids)
        self._index.append(ids)

    def observe(self, ids: Sequence[int]) -> None:
        """Index committed tokens, and follow what they copy."""
        for token in ids:
            self._copied.observe(self._index.ids, token)
            self._index.append((token,))
            if self._copied.ended:
                self._copied.begin(self._match(self._index, self._taken))

    def end(self) -> None:
        """Leave the output to the requests that follow."""
        if self._session is not None:
            self._session.add(self._index.ids[self._prompt :])

    def propose(self, limit: int) -> Proposal:
        """Return drafts, none when no n-gram at the end has occurred before and no copy was just changed."""
        own = max(
            self._match(self._index, self._taken), self._enough(self._copied.place), key=lambda place: place.context
        )
        if self._session is not None:
            other = self._match(self._session.index, -1)
            if other.context > own.context:
                return Proposal(self._session.copy(other.at, limit), context=other.context)
        if own == NOWHERE:
            own = self._enough(self._copied.behind_change)
        return Proposal(tuple(self._copy(own.at, limit)) if own.context else (), context=own.context)

    def _match(self, index: TextIndex, taken: int) -> Place:
        """Return the place of a text behind an occurrence of the last n tokens, of the largest n that occurs."""
        known = self._index.ids
        for n in self._sizes:
            followers = index.followers(known[-n:]) if n <= len(known) else ()
            if followers:
                at = followers[taken]
                return Place(at, agreeing_tokens(index.ids, at, known, MOST_CONTEXT))
        return NOWHERE

    def _enough(self, place: Place) -> Place:
        """Return the place, `NOWHERE` if it has less context than the smallest n."""
        return place if place.context >= self._sizes[-1] else NOWHERE

    def _copy(self, start: int, limit: int) -> list[int]:
        known = self._index.ids
        drafts: list[int] = []
        for source in range(start, start + limit):
            drafts.append(known[source] if source < len(known) else drafts[source - len(known)])
        return drafts
