"""The exact law of what a round emits, by enumeration over all drafts, outcomes and own tokens; float64.

A round judges gamma drafts and emits a of them and a token of its own; AR decoding completes the text to gamma + 1
tokens. A mode is lossless iff the law of these equals that of AR decoding; rounds have noise of their own, so one round
is enough.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from specc.speculation.rules import JudgedChain, Odds, Rule, num_accepted_from_passes, odds_from_chain, own_law

Float64Array: TypeAlias = npt.NDArray[np.float64]
OddsOf: TypeAlias = Callable[[Rule, JudgedChain], Odds]
OwnLaw: TypeAlias = Callable[[Rule, JudgedChain, Odds, npt.NDArray[np.int64]], Any]


@dataclass(frozen=True)
class Pair:
    """A target and its draft: level k holds the law of token k given the k before it, float64 [V]*(k+1).

    `drawn` is what drafts are drawn from, `stated` what the judge is told; they are the same unless a mutant lies.
    """

    target: tuple[Float64Array, ...]
    drawn: tuple[Float64Array, ...]
    stated: tuple[Float64Array, ...]

    @property
    def gamma(self) -> int:
        return len(self.drawn)

    @property
    def vocab_size(self) -> int:
        return len(self.target[0])


def random_law(rng: np.random.Generator, shape: tuple[int, ...], zeros: float = 0.0) -> Float64Array:
    """Return laws over the last axis; a part `zeros` of their entries is 0."""
    weights = rng.exponential(1.0, shape) ** 2
    weights[rng.random(shape) < zeros] = 0
    weights[..., 0] += 1e-3 * (weights.sum(axis=-1) == 0)
    return weights / weights.sum(axis=-1, keepdims=True)


def random_pair(rng: np.random.Generator, vocab_size: int, gamma: int, zeros: float = 0.3) -> Pair:
    """Return a pair whose laws depend on the whole prefix and have zeros in different places."""
    target = tuple(random_law(rng, (vocab_size,) * (k + 1), zeros) for k in range(gamma + 1))
    drawn = tuple(random_law(rng, (vocab_size,) * (k + 1), zeros) for k in range(gamma))
    return Pair(target, drawn, drawn)


def ar_law(pair: Pair) -> Float64Array:
    """Return the law of gamma + 1 tokens of AR decoding, [V]*(gamma+1)."""
    law: Float64Array = pair.target[0]
    for level in pair.target[1:]:
        law = law[..., None] * level
    return law


def accepted_law(rule: Rule, chances: Float64Array, num_draft: int) -> Float64Array:
    """Return the law of the number of accepted drafts, [N,gamma+1], from the chance of each draft, [N,gamma]."""
    law = np.zeros((len(chances), num_draft + 1))
    for outcome in np.ndindex(*(2,) * num_draft):
        passes = np.array([outcome], dtype=bool)
        accepted = int(num_accepted_from_passes(rule, passes, np.array([num_draft]))[0])
        law[:, accepted] += np.where(passes, chances, 1 - chances).prod(axis=1)
    return law


def judged_chains(pair: Pair) -> tuple[JudgedChain, Float64Array]:
    """Return every sequence of drafts as a row of one chain, in the order of np.ndindex, and its probability [N]."""
    size, gamma = pair.vocab_size, pair.gamma
    drafts = np.array(list(np.ndindex(*(size,) * gamma)), dtype=np.int64)
    p = np.stack([pair.target[k][tuple(drafts[:, :k].T)] * np.ones((len(drafts), 1)) for k in range(gamma + 1)], axis=1)
    stated = [pair.stated[k][tuple(drafts[:, :k].T)] * np.ones((len(drafts), 1)) for k in range(gamma)]
    q = np.stack([*stated, np.zeros_like(stated[0])], axis=1)
    drawn = [pair.drawn[k][tuple(drafts[:, : k + 1].T)] for k in range(gamma)]
    chain = JudgedChain(p, q, drafts, np.full(len(drafts), gamma))
    return chain, np.prod(drawn, axis=0)


def emitted_law(
    rule: Rule, pair: Pair, odds_of: OddsOf = odds_from_chain, own_law_of: OwnLaw = own_law
) -> tuple[Float64Array, float]:
    """Return the law of gamma + 1 tokens when a round is followed by AR decoding, and the mean of accepted drafts."""
    size, gamma = pair.vocab_size, pair.gamma
    chain, probability = judged_chains(pair)
    with np.errstate(divide="ignore", invalid="ignore"):
        odds = odds_of(rule, chain)
        chances = np.minimum(np.nan_to_num(odds.numerator / odds.denominator, nan=0.0, posinf=1.0), 1.0)
    drawn = probability > 0
    counts = accepted_law(rule, chances, gamma)
    law = np.zeros((size,) * (gamma + 1))
    for accepted in range(gamma + 1):
        own = own_law_of(rule, chain, odds, np.full(len(drawn), accepted))
        own = own / own.sum(axis=1, keepdims=True)
        mass = np.where(drawn, probability * counts[:, accepted], 0)[:, None] * np.where(drawn[:, None], own, 0)
        mass = mass.reshape((size,) * (gamma + 1)).sum(axis=tuple(range(accepted, gamma)))  # [V]*(accepted+1)
        for level in pair.target[accepted + 1 :]:
            mass = mass[..., None] * level
        law += mass
    return law, float(probability @ (counts @ np.arange(gamma + 1)))
