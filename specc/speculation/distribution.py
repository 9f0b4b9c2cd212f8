"""The law that the sampler must have, written a second time: one row, float64, plain Python, no code shared with it."""

from __future__ import annotations

from math import exp
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from specc.speculation.noise import Float32Array
from specc.speculation.sampling import GREEDY_BELOW

Float64Array: TypeAlias = npt.NDArray[np.float64]


def processed_distribution(
    logits: Float32Array, *, temperature: float, top_k: int, top_p: float, min_p: float, candidates: int
) -> Float64Array:
    """Return the probabilities of the next token after temperature, top-k, top-p and min-p, in that order.

    Args:
        logits: float32 [V].
        temperature: below `GREEDY_BELOW` all the probability is on the lowest id of the largest value.
        top_k: 0 is off.
        top_p: 1 or more is off.
        min_p: 0 is off.
        candidates: truncation is defined on this many largest logits.

    Returns:
        float64 [V], sum 1.

    Source: docs/engine-abi.md rules 5 and 6.
    """
    values = [float(value) for value in logits]
    by_rank = sorted(range(len(values)), key=lambda token: (-values[token], token))
    probabilities = np.zeros(len(values), dtype=np.float64)
    if temperature < GREEDY_BELOW:
        probabilities[by_rank[0]] = 1.0
        return probabilities
    largest = values[by_rank[0]]
    weight = {token: exp((values[token] - largest) / temperature) for token in by_rank}
    kept = by_rank
    if top_k > 0 or top_p < 1 or min_p > 0:
        kept = kept[:candidates]
        if top_k > 0:
            kept = kept[:top_k]
        if top_p < 1:
            kept = _shortest_prefix([weight[token] for token in kept], top_p, kept)
        kept = [token for token in kept if weight[token] >= min_p * weight[kept[0]]] or kept[:1]
    total = sum(weight[token] for token in kept)
    for token in kept:
        probabilities[token] = weight[token] / total
    return probabilities


def _shortest_prefix(weights: list[float], share: float, tokens: list[int]) -> list[int]:
    total, reached = sum(weights), 0.0
    for length, weight in enumerate(weights, start=1):
        reached += weight
        if reached >= share * total:
            return tokens[:length]
    return tokens
