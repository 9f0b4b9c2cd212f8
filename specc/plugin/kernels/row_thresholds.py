"""Kernel: the last kept id of every row that top-k, top-p or min-p truncates. Grid (B R).

The kept ids are a prefix of the row in descending order, ties by id, so that its last logit and id say of any id
whether it is kept. The `candidates` largest logits are found by their digits, not by sorting the row: two to four
passes that count, one that collects them. What precedes each of these is counted, which needs no sort.
"""

from __future__ import annotations

import triton
import triton.language as tl

from specc.plugin.kernels.rows import COLDEST, LOWEST, NO_ID, logits_of_tile

SIGN = tl.constexpr(0x80000000)
ALL = tl.constexpr(0xFFFFFFFF)
BINS = tl.constexpr(256)
EMPTY = tl.constexpr(-(2**63))
# Candidates that all are compared with at once.
CHUNK_K = tl.constexpr(8)


@triton.jit
def ordered_from_float(x):
    """Return uint32 in the order of float32; both zeros give the same."""
    bits = tl.where(x == 0, 0.0, x).to(tl.uint32, bitcast=True)
    return tl.where(bits >= SIGN, bits ^ ALL, bits | SIGN)


@triton.jit
def float_from_ordered(key):
    """Return the float32 of `ordered_from_float`."""
    return tl.where(key >= SIGN, key ^ SIGN, key ^ ALL).to(tl.float32, bitcast=True)


@triton.jit
def float_from_mark(mark):
    """Return the logit of a candidate of `collect_candidates`."""
    return float_from_ordered(((mark >> 32) + SIGN).to(tl.uint32))


@triton.jit
def digit_of_rank(row_logits, prefix, need, V, W, SHIFT: tl.constexpr, BLOCK_V: tl.constexpr):
    """Return the prefix with one digit more of the `need`-th largest of those that begin with it, and its rank left."""
    digits = tl.arange(0, BINS)
    counts = tl.zeros((BINS,), tl.int32)
    for start in range(0, V, BLOCK_V):
        at = start + tl.arange(0, BLOCK_V)
        inside = at < V
        key = ordered_from_float(logits_of_tile(row_logits, at, V, W))
        if SHIFT < 24:
            inside = inside & ((key >> (SHIFT + 8)) == prefix)
        counts += tl.histogram(((key >> SHIFT) & 0xFF).to(tl.int32), BINS, mask=inside)
    at_least = tl.sum(counts, axis=0) - tl.cumsum(counts, axis=0) + counts
    digit = tl.max(tl.where(at_least >= need, digits, 0), axis=0)
    above = tl.sum(tl.where(digits > digit, counts, 0), axis=0)
    return (prefix << 8) | digit.to(tl.uint32), need - above


@triton.jit
def collect_candidates(row_logits, out, prefix, need, V, W, SHIFT: tl.constexpr, BLOCK_V: tl.constexpr):
    """Store what begins above prefix, and the first `need` that begin with it, as key and id in one int64."""
    taken = 0
    level = 0
    for start in range(0, V, BLOCK_V):
        at = start + tl.arange(0, BLOCK_V)
        inside = at < V
        key = ordered_from_float(logits_of_tile(row_logits, at, V, W))
        begins = key >> SHIFT
        equal = (inside & (begins == prefix)).to(tl.int32)
        among_first = level + tl.cumsum(equal, axis=0) <= need
        take = inside & ((begins > prefix) | ((begins == prefix) & among_first))
        taking = take.to(tl.int32)
        slot = taken + tl.cumsum(taking, axis=0) - taking
        # Descending order of this number is descending order of the key, then ascending order of the id.
        mark = ((key.to(tl.int64) - SIGN) << 32) + (NO_ID - at)
        tl.store(out + slot, mark, take)
        taken += tl.sum(taking, axis=0)
        level += tl.sum(equal, axis=0)


@triton.jit
def earlier_candidates(out, marks, first, temperature, K, BLOCK_K: tl.constexpr):
    """Return how many candidates come before each, int32 [BLOCK_K], and the sum of their weights, float32."""
    rank = tl.zeros((BLOCK_K,), tl.int32)
    before = tl.zeros((BLOCK_K,), tl.float32)
    for start in range(0, K, CHUNK_K):
        entry = start + tl.arange(0, CHUNK_K)
        others = tl.load(out + entry, entry < K, EMPTY)
        weights = tl.exp((float_from_mark(others) - first) / temperature)
        earlier = others[None, :] > marks[:, None]
        rank += tl.sum(earlier.to(tl.int32), axis=1)
        before += tl.sum(tl.where(earlier, weights[None, :], 0.0), axis=1)
    return rank, before


@triton.jit
def row_thresholds(
    logits, temperature, top_k, top_p, min_p,
    R, V, W, K,
    last_logit, last_id, scratch,
    DIGITS: tl.constexpr, BLOCK_V: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Write the last kept id of a row; of a row that keeps every id, minus infinity and the largest int32.

    Args:
        logits: [B,R,W], float32, float16 or bfloat16; ids from V on are padding of the head.
        temperature, top_p, min_p: float32 [B]. top_k: int64 [B].
        K: candidates, at most V and at most BLOCK_K.
        last_logit, last_id: float32, int32 [B,R].
        scratch: int64 [B,R,BLOCK_K]; an output only because a plugin has no workspace.
        DIGITS: how many of the four bytes of an ordered float32 tell two logits apart: bfloat16 2, float16 3.
    """
    row = tl.program_id(0)
    b = row // R
    limit = tl.load(top_k + b)
    share = tl.load(top_p + b)
    floor = tl.load(min_p + b)
    warmth = tl.load(temperature + b)
    truncated = (limit > 0) | (share < 1) | (floor > 0)
    last = LOWEST
    last_kept = NO_ID
    if truncated & (warmth >= COLDEST):
        row_logits = logits + row.to(tl.int64) * W
        prefix = tl.full((), 0, tl.uint32)
        need = K
        for digit in tl.static_range(DIGITS):
            prefix, need = digit_of_rank(row_logits, prefix, need, V, W, 24 - 8 * digit, BLOCK_V)
        out = scratch + row.to(tl.int64) * BLOCK_K
        collect_candidates(row_logits, out, prefix, need, V, W, 32 - 8 * DIGITS, BLOCK_V)
        tl.debug_barrier()  # other threads wrote the candidates
        entry = tl.arange(0, BLOCK_K)
        marks = tl.load(out + entry, entry < K, EMPTY)
        first = tl.max(tl.where(entry < K, float_from_mark(marks), LOWEST), axis=0)
        rank, before = earlier_candidates(out, marks, first, warmth, K, BLOCK_K)
        in_top_k = rank < tl.where(limit > 0, tl.minimum(limit, K), K)
        weights = tl.where(in_top_k, tl.exp((float_from_mark(marks) - first) / warmth), 0.0)
        share_before = before / tl.sum(weights, axis=0)
        in_top_p = share_before < tl.where(share < 1, share, float("inf"))  # a rounded sum may pass 1
        kept = (rank == 0) | (in_top_k & in_top_p & (weights >= floor))
        count = tl.sum(kept.to(tl.int32), axis=0)
        mark = tl.max(tl.where(rank == count - 1, marks, EMPTY), axis=0)
        last = float_from_mark(mark)
        last_kept = NO_ID - (mark & 0xFFFFFFFF).to(tl.int32)
    tl.store(last_logit + row, last)
    tl.store(last_id + row, last_kept)
