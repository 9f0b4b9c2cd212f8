"""Texts that drafters copy from, with the places of their n-grams."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

END: Final = -1  # stands after each output of a session's text; never a token


def agreeing_tokens(text: Sequence[int], start: int, known: Sequence[int], most: int) -> int:
    """Return how many tokens before place `start` of a text are the same as at the end of another, at most `most`.

    Args:
        text: what is copied from.
        start: place of the first copied token.
        known: the text to continue; may be the same one.
        most: where counting ends.
    """
    count = 0
    while count < min(most, start, len(known)) and text[start - 1 - count] == known[-1 - count]:
        count += 1
    return count


class TextIndex:
    """A growing text and, for each of its n-grams, where the tokens stand that followed it.

    Appending a token adds one entry for each size; looking up an n-gram that never occurred costs one hash.

    Args:
        sizes: of the n-grams.
    """

    def __init__(self, sizes: Iterable[int]) -> None:
        self.sizes = frozenset(sizes)
        self.ids: list[int] = []
        self._followers: dict[tuple[int, ...], list[int]] = {}

    def append(self, ids: Iterable[int]) -> None:
        """Append tokens: each is the follower of the n-grams that end before it."""
        known = self.ids
        for token in ids:
            end = len(known)
            if token != END:
                for n in self.sizes:
                    if n <= end:
                        self._followers.setdefault(tuple(known[end - n :]), []).append(end)
            known.append(token)

    def followers(self, ngram: Sequence[int]) -> Sequence[int]:
        """Return the places of the tokens that followed an n-gram, ascending; its size is one of `sizes`."""
        return self._followers.get(tuple(ngram), ())


class SessionText:
    """The outputs of a session's finished requests, for the drafters of later ones.

    Drafts decide how fast a text comes, never what it says, so no request sees another's output; that a draft was
    accepted can be told from the time it took, so a session that serves strangers keeps `scope: request`.

    Args:
        sizes: of the n-grams that are indexed.
        capacity: most tokens that are kept; when they overflow, the oldest outputs go until half of it is free.
    """

    def __init__(self, sizes: Iterable[int], capacity: int) -> None:
        self.index = TextIndex(sizes)
        self._capacity = capacity
        self._outputs: deque[tuple[int, ...]] = deque()
        self._tokens = 0

    def add(self, output: Sequence[int]) -> None:
        """Remember an output, or its end if it is longer than the capacity."""
        kept = tuple(output[-self._capacity :])
        if not kept:
            return
        self._outputs.append(kept)
        self._tokens += len(kept)
        if self._tokens <= self._capacity:
            self.index.append((*kept, END))
            return
        while len(self._outputs) > 1 and self._tokens > self._capacity // 2:
            self._tokens -= len(self._outputs.popleft())
        self.index = TextIndex(self.index.sizes)
        for held in self._outputs:
            self.index.append((*held, END))

    def copy(self, start: int, limit: int) -> tuple[int, ...]:
        """Return up to `limit` tokens from a place on, up to the end of the output that it stands in."""
        ids = self.index.ids
        stop = next((at for at in range(start, min(start + limit, len(ids))) if ids[at] == END), start + limit)
        return tuple(ids[start:stop])
