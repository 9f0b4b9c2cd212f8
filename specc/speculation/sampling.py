"""The target's own pick of each logit row (docs/engine-abi.md rules 5 to 8): greedy, or Gumbel-max with shared noise.

Naive on purpose: it sorts every row and draws noise for every id. Engines compute the same in less.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from specc.speculation.noise import Float32Array, Int64Array, Stream, gumbel, noise_bits

BoolArray: TypeAlias = npt.NDArray[np.bool_]

GREEDY_BELOW: Final = 1e-5


@dataclass(frozen=True, eq=False)
class SamplingRows:
    """The sampling inputs of a call, one value a row.

    Attributes:
        temperature: float32 [B]; below `GREEDY_BELOW` the row is greedy.
        top_k: int64 [B]; 0 is off.
        top_p: float32 [B]; 1 or more is off.
        min_p: float32 [B]; 0 is off.
        seed: int64 [B] in [0, 2^32).
    """

    temperature: Float32Array
    top_k: Int64Array
    top_p: Float32Array
    min_p: Float32Array
    seed: Int64Array


@dataclass(frozen=True, eq=False)
class Picks:
    """What was picked, and how narrowly.

    Attributes:
        ids: int64 [B,R].
        gaps: float32 [B,R], the best minus the second best of the values that were compared: logits in a greedy row,
            perturbed z + g of the kept ids in a sampled one. Infinite where one id was kept; 0 is a tie.
    """

    ids: Int64Array
    gaps: Float32Array


def sampling_rows(
    seeds: Int64Array, temperature: float = 0.0, top_k: int = 0, top_p: float = 1.0, min_p: float = 0.0
) -> SamplingRows:
    """Return rows that share their settings and differ in the seed, int64 [B]; the defaults are the ABI's neutrals."""
    batch = seeds.shape
    return SamplingRows(
        temperature=np.full(batch, temperature, dtype=np.float32),
        top_k=np.full(batch, top_k, dtype=np.int64),
        top_p=np.full(batch, top_p, dtype=np.float32),
        min_p=np.full(batch, min_p, dtype=np.float32),
        seed=np.asarray(seeds, dtype=np.int64),
    )


def greedy_pick(logits: Float32Array) -> Int64Array:
    """Return the lowest id among the values equal to the maximum: float32 [...,V] to int64 [...]."""
    return np.asarray(np.argmax(logits, axis=-1), dtype=np.int64)  # argmax returns the first of equal values


def target_picks(logits: Float32Array, sampling: SamplingRows, positions: Int64Array, candidates: int) -> Picks:
    """Return the target's pick of every logit row.

    Args:
        logits: float32 [B,R,V], V the tokenizer's size.
        sampling: settings of the B rows; greedy and sampled rows may be mixed.
        positions: int64 [B,R], absolute position of the token to be emitted.
        candidates: truncated sampling is defined on this many largest logits (manifest).

    Returns:
        The picks. In a sampled row the id with the largest z + g among the kept ids, the lowest on ties.

    Source: docs/engine-abi.md rules 5 to 7.
    Checked by: tests/unit/speculation/test_sampling.py, tests/numerics/test_sampling_law.py
    """
    noise = _target_noise(sampling, positions, logits.shape[-1])
    kept = kept_candidates(logits, sampling, candidates)
    perturbed = np.where(kept, scaled_logits(logits, sampling.temperature) + noise, np.float32(-np.inf))
    values = np.where(greedy_rows(sampling)[:, None, None], logits, perturbed)
    return Picks(ids=greedy_pick(values), gaps=_top_two_gaps(values))


def kept_candidates(logits: Float32Array, sampling: SamplingRows, candidates: int) -> BoolArray:
    """Return which ids a sampled row may pick.

    Every id when top_k, top_p and min_p are off. Otherwise the `candidates` largest logits, ties by lowest id; of these
    the top_k largest; of these, probabilities renormalised, the shortest prefix in descending order that reaches top_p;
    of these those with p >= min_p * max p. The largest logit always stays.

    Args:
        logits: float32 [B,R,V].
        sampling: settings of the B rows.
        candidates: number of largest logits that truncation is defined on, at least 1; V or more is V.

    Returns:
        bool [B,R,V].

    Source: docs/engine-abi.md rule 6.
    """
    width = logits.shape[-1]
    top_k, top_p, min_p = sampling.top_k[:, None, None], sampling.top_p[:, None, None], sampling.min_p[:, None, None]
    order = np.argsort(-logits, axis=-1, kind="stable")  # descending; stable keeps the lowest id first
    z = np.take_along_axis(scaled_logits(logits, sampling.temperature), order, axis=-1)
    rank = np.arange(width, dtype=np.int64)
    in_top_k = rank < np.where(top_k > 0, np.minimum(top_k, candidates), candidates)
    weights = np.where(in_top_k, np.exp(z), np.float32(0))
    p = weights / weights.sum(axis=-1, keepdims=True)
    sum_before = np.zeros_like(p)
    sum_before[..., 1:] = np.cumsum(p, axis=-1, dtype=np.float32)[..., :-1]
    in_top_p = (top_p >= 1) | (sum_before < top_p)
    in_min_p = weights >= min_p  # a weight is p / max p, since the largest z is 0
    truncated = (top_k > 0) | (top_p < 1) | (min_p > 0)
    kept_in_order = ~truncated | (rank == 0) | (in_top_k & in_top_p & in_min_p)
    kept = np.empty(logits.shape, dtype=np.bool_)
    np.put_along_axis(kept, order, kept_in_order, axis=-1)
    return kept


def scaled_logits(logits: Float32Array, temperature: Float32Array) -> Float32Array:
    """Return z = (logits - max logits) / temperature, float32 [B,R,V]; greedy rows are divided by 1, not by about 0."""
    divisor = np.where(temperature < GREEDY_BELOW, np.float32(1), temperature)[:, None, None]
    return np.asarray((logits - logits.max(axis=-1, keepdims=True)) / divisor, dtype=np.float32)


def greedy_rows(sampling: SamplingRows) -> BoolArray:
    """Return which of the B rows are greedy."""
    return np.asarray(sampling.temperature < GREEDY_BELOW, dtype=np.bool_)


def near_ties(
    logits: Float32Array, sampling: SamplingRows, positions: Int64Array, candidates: int, epsilon: float
) -> BoolArray:
    """Return the picks that rounding alone may change, bool [B,R]: an engine that differs there is counted, not wrong.

    A pick is near a tie when an id within `epsilon` of it, in the values that were compared, may be kept, or when the
    pick may be dropped. What is kept is a prefix in falling order, so both are a question of its edge: an id may be
    kept that lies less than `epsilon` under the last kept one, and dropped that lies less than `epsilon` over the first
    dropped one, in z, after top_p and min_p moved by `epsilon`.
    """
    pick = target_picks(logits, sampling, positions, candidates)
    greedy = greedy_rows(sampling)[:, None]
    z = scaled_logits(logits, sampling.temperature)
    strict = kept_candidates(logits, _moved(sampling, np.float32(-epsilon)), candidates)
    first_dropped = np.where(strict, np.float32(-np.inf), z).max(axis=-1)
    perturbed = z + _target_noise(sampling, positions, logits.shape[-1])
    kept = loosely_kept(logits, sampling, candidates, epsilon)
    values = np.where(greedy[..., None], logits, np.where(kept, perturbed, np.float32(-np.inf)))
    own = pick.ids[..., None]
    rivals = values > np.take_along_axis(values, own, axis=-1) - np.float32(epsilon)
    np.put_along_axis(rivals, own, values=False, axis=-1)
    may_be_dropped = np.take_along_axis(z, own, axis=-1)[..., 0] - np.float32(epsilon) < first_dropped
    return np.asarray(rivals.any(axis=-1) | (~greedy & may_be_dropped), dtype=np.bool_)


def loosely_kept(logits: Float32Array, sampling: SamplingRows, candidates: int, epsilon: float) -> BoolArray:
    """Return the ids that truncation keeps, or may keep of logits that differ by less than `epsilon`, bool [B,R,V]."""
    z = scaled_logits(logits, sampling.temperature)
    loose = kept_candidates(logits, _moved(sampling, np.float32(epsilon)), candidates)
    last_kept = np.where(loose, z, np.float32(np.inf)).min(axis=-1, keepdims=True)
    return np.asarray(loose | (z > last_kept - np.float32(epsilon)), dtype=np.bool_)


def near_sums(
    logits: Float32Array, sampling: SamplingRows, positions: Int64Array, candidates: int, epsilon: float
) -> BoolArray:
    """Return the picks that rounding may change although both sides have the very same logits, bool [B,R].

    Logits that tie are told apart by their ids then, also at the edge of top_k; only exp, log and sums round. A pick
    is near when its gap is under `epsilon`, or when top_p or min_p moved by `epsilon` picks another id.
    """
    pick = target_picks(logits, sampling, positions, candidates)
    near = pick.gaps < epsilon
    for delta in (np.float32(-epsilon), np.float32(epsilon)):
        near |= target_picks(logits, _moved(sampling, delta), positions, candidates).ids != pick.ids
    return near


def _moved(sampling: SamplingRows, delta: np.float32) -> SamplingRows:
    """Return rows that keep more by `delta` of top_p and min_p, less where it is negative; what is off stays off."""
    return replace(
        sampling,
        top_p=np.where(sampling.top_p < 1, sampling.top_p + delta, sampling.top_p),
        min_p=np.where(sampling.min_p > 0, sampling.min_p - delta, sampling.min_p),
    )


def _target_noise(sampling: SamplingRows, positions: Int64Array, width: int) -> Float32Array:
    ids = np.arange(width, dtype=np.int64)
    return gumbel(noise_bits(sampling.seed[:, None, None], Stream.TARGET, positions[:, :, None], ids))  # [B, R, V]


def _top_two_gaps(values: Float32Array) -> Float32Array:
    if values.shape[-1] == 1:
        return np.full(values.shape[:-1], np.inf, dtype=np.float32)
    two = np.partition(values, -2, axis=-1)[..., -2:]
    return np.asarray(two[..., 1] - two[..., 0], dtype=np.float32)
