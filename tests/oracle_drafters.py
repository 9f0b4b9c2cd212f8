"""Drafters that know the answer: acceptance is then known too, and speculation has no excuse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from specc.runtime.drafters.drafter import Proposal


class OracleDrafter:
    """Replays known continuations, keyed by the prompt; every `corrupt`-th generated token is proposed wrongly.

    Args:
        answers: generated ids by prompt.
        vocab_size: a wrong proposal is the next id modulo this.
        corrupt: period of wrong proposals, counted in generated tokens; 0 is never.
    """

    def __init__(self, answers: Mapping[tuple[int, ...], Sequence[int]], vocab_size: int, corrupt: int = 0) -> None:
        self._answers = answers
        self._vocab_size = vocab_size
        self._corrupt = corrupt
        self._answer: Sequence[int] = ()
        self._observed = 0

    def begin(self, ids: Sequence[int]) -> None:
        self._answer = self._answers[tuple(ids)]
        self._observed = 0

    def propose(self, limit: int) -> Proposal:
        known = self._answer[self._observed : self._observed + limit]
        return Proposal(tuple(self._proposal(self._observed + k, token) for k, token in enumerate(known)))

    def observe(self, ids: Sequence[int]) -> None:
        self._observed += len(ids)

    def end(self) -> None:
        pass

    def _proposal(self, index: int, token: int) -> int:
        wrong = self._corrupt > 0 and index % self._corrupt == self._corrupt - 1
        return (token + 1) % self._vocab_size if wrong else token


def rounds_from_corruption(length: int, gamma: int, corrupt: int) -> list[tuple[int, int]]:
    """Return (proposed, accepted) of every round that generates `length` tokens with a corrupted oracle.

    The first token comes from the call that ends a prompt of several tokens. A round proposes min(gamma, remaining - 1)
    drafts.
    """
    rounds, done = [], 1
    while done < length:
        proposed = min(gamma, length - done - 1)
        wrong = [k for k in range(proposed) if corrupt and (done + k) % corrupt == corrupt - 1]
        accepted = wrong[0] if wrong else proposed
        if proposed:
            rounds.append((proposed, accepted))
        done += accepted + 1
    return rounds
