"""The n-gram drafter, also called prompt lookup: what followed the last n tokens when they last appeared."""

from __future__ import annotations

from collections.abc import Sequence


class NgramDrafter:
    """Looks up the last n committed tokens, the longest n first, and copies what followed their most recent occurrence.

    A copy that reaches the end of the sequence goes on in its own drafts, so that a period repeats. For each n a hash
    map holds where the token after an n-gram stands; committing a token adds one entry a map, and a lookup without a
    match costs one look into each.

    Source: drafters.md section 3.2.
    """

    def __init__(self, min_ngram: int, max_ngram: int) -> None:
        self._sizes = tuple(range(max_ngram, min_ngram - 1, -1))
        self._ids: list[int] = []
        self._followers: dict[int, dict[tuple[int, ...], int]] = {n: {} for n in self._sizes}

    def begin(self, ids: Sequence[int]) -> None:
        """Index the prompt."""
        self._ids = []
        self._followers = {n: {} for n in self._sizes}
        self.observe(ids)

    def observe(self, ids: Sequence[int]) -> None:
        """Index committed tokens: each is the follower of the n-grams that end before it."""
        known = self._ids
        for token in ids:
            end = len(known)
            for n in self._sizes:
                if n <= end:
                    self._followers[n][tuple(known[end - n :])] = end
            known.append(token)

    def propose(self, limit: int) -> list[int]:
        """Return `limit` drafts, or none when no n-gram at the end has occurred before."""
        known = self._ids
        for n in self._sizes:
            follower = self._followers[n].get(tuple(known[-n:])) if n <= len(known) else None
            if follower is not None:
                return self._copy(follower, limit)
        return []

    def _copy(self, start: int, limit: int) -> list[int]:
        known = self._ids
        drafts: list[int] = []
        for source in range(start, start + limit):
            drafts.append(known[source] if source < len(known) else drafts[source - len(known)])
        return drafts
