"""Suffix decoding: the most probable continuation of the text's own end, by how often it was continued how.

A suffix tree would hold a count for every substring up to a depth. Its counts are taken here from lists of occurrences
instead: the node of a pattern is the set of places where the pattern stands, its count their number, a child the places
where one more token stands. That needs a few list entries a token instead of `max_depth` tree nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from specc.runtime.context_acceptance import MOST_CONTEXT
from specc.runtime.drafters.drafter import Proposal
from specc.runtime.drafters.text_index import END, SessionText, TextIndex, agreeing_tokens

SIZES: Final = (1, 2, 4)  # of the indexed patterns; longer ones are filtered from these
MOST_OCCURRENCES: Final = 64  # of one pattern that are counted, the most recent: bounds the time of a proposal


@dataclass(frozen=True)
class SuffixSettings:
    """How far a guess goes.

    Attributes:
        max_depth: longest pattern, in tokens.
        factor, offset: a pattern of m tokens is continued by at most floor(m * factor + offset) drafts.
        min_token_prob: a guess ends before the draft at which its chance, all drafts before included, falls below this.
    """

    max_depth: int
    factor: float
    offset: float
    min_token_prob: float


@dataclass(frozen=True)
class Guess:
    """A continuation, the number of its drafts that the counts expect to be right, and `Proposal.context`."""

    tokens: tuple[int, ...] = ()
    score: float = 0.0
    context: int = 0


class SuffixDrafter:
    """Continues the request's text as it, or an earlier output of the session, went on most often.

    How many drafts there are differs from round to round: long patterns with one continuation give many, short or
    divided ones few. A text whose last token is new costs one hash.

    Args:
        settings: how far a guess goes.
        session: outputs of earlier requests, indexed by `SIZES`; None looks at none.

    Source: drafters.md section 3.2b (arXiv:2411.04975).
    """

    def __init__(self, settings: SuffixSettings, session: SessionText | None = None) -> None:
        self._settings = settings
        self._session = session
        self._index = TextIndex(SIZES)
        self._prompt = 0

    def begin(self, ids: Sequence[int]) -> None:
        """Index the prompt."""
        self._index = TextIndex(SIZES)
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
        """Return the drafts of the best guess; on equal scores the request's own text goes before the session's."""
        context = self._index.ids
        best = best_guess(self._index, context, limit, self._settings)
        if self._session is not None:
            other = best_guess(self._session.index, context, limit, self._settings)
            best = best if best.score >= other.score else other
        return Proposal(best.tokens, context=best.context)


def best_guess(index: TextIndex, context: Sequence[int], limit: int, settings: SuffixSettings) -> Guess:
    """Return the guess with the best score over all patterns at the end of `context`; the longer pattern on ties.

    Args:
        index: of the text to copy from.
        context: the text to continue.
        limit: most drafts.
        settings: how far a guess goes.
    """
    best = Guess()
    followers: Sequence[int] = ()
    seen = (0, 0)
    for m in range(1, min(settings.max_depth, len(context)) + 1):
        followers = _longer(index, context, m, followers)
        if not followers:
            break
        budget = min(limit, int(m * settings.factor + settings.offset))
        if budget < 1 or (len(followers), budget) == seen:  # the same places give the same guess
            continue
        seen = (len(followers), budget)
        guess = guess_from_followers(index.ids, followers, budget, settings.min_token_prob)
        if guess.tokens and guess.score >= best.score:
            best = replace(guess, context=agreeing_tokens(index.ids, followers[-1], context, MOST_CONTEXT))
        if best.score == limit:
            break
    return best


def guess_from_followers(ids: Sequence[int], followers: Sequence[int], budget: int, min_token_prob: float) -> Guess:
    """Return the walk along the most frequent continuation, the most recent one on ties.

    Args:
        ids: the text.
        followers: places after the occurrences of a pattern, ascending.
        budget: most drafts.
        min_token_prob: the walk ends before it is less probable.
    """
    tokens: list[int] = []
    score, chance = 0.0, 1.0
    while len(tokens) < budget:
        counts = Counter(ids[at] for at in reversed(followers) if at < len(ids) and ids[at] != END)
        if not counts:
            break
        token, count = counts.most_common(1)[0]  # of equal counts the first that was met
        chance *= count / counts.total()
        if chance < min_token_prob:
            break
        tokens.append(token)
        score += chance
        followers = [at + 1 for at in followers if at < len(ids) and ids[at] == token]
    return Guess(tuple(tokens), score)


def _longer(index: TextIndex, context: Sequence[int], m: int, followers: Sequence[int]) -> Sequence[int]:
    """Return the places after the last m tokens of `context`, given those after the last m - 1."""
    if m in index.sizes:
        return index.followers(context[-m:])[-MOST_OCCURRENCES:]
    wanted = context[-m]
    return [at for at in followers if at >= m and index.ids[at - m] == wanted]
