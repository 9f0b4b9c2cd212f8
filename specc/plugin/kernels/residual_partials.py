"""Kernel: the second pass of rejection, over one row of each sequence that needs it. Grid (B, tiles).

A draw from weights w is the id with the largest w / E, E = -log(u).
"""

from __future__ import annotations

import triton
import triton.language as tl

from specc.plugin.kernels.noise import exponential, noise_bits
from specc.plugin.kernels.rows import LOWEST, NO_ID, RESIDUAL, kept_ids, logits_of_tile, lowest_at_largest


@triton.jit
def residual_partials(
    logits, past_lengths, logit_rows, temperature, seed, last_logit, last_id, q_ids, q_probs, num_accepted, own_token,
    row_weights,
    R, V, W, KQ, NT,
    race_values, race_ids,
    BLOCK_V: tl.constexpr,
):  # fmt: skip
    """Write the winners of a tile: of max(p - q, 0), and of p for where nothing is left.

    Args:
        logits: [B,R,W], float32, float16 or bfloat16; ids from V on are padding of the head.
        past_lengths, seed: int64 [B]. logit_rows: int64 [B,R]. temperature: float32 [B].
        last_logit, last_id: of `row_thresholds`. q_ids, q_probs: int64, float32 [B,R,KQ].
        num_accepted, own_token, row_weights: of `chain_judge`.
        race_values, race_ids: float32, int32 [B,NT,2].
    """
    b = tl.program_id(0)
    tile = tl.program_id(1)
    left = LOWEST
    winner_left = NO_ID
    whole = LOWEST
    winner_whole = NO_ID
    if tl.load(own_token + b) == -1:
        j = tl.load(num_accepted + b)
        row = b * R + j
        at = tile * BLOCK_V + tl.arange(0, BLOCK_V)
        inside = at < V
        numbers = logits_of_tile(logits + row * W, at, V, W)
        kept = kept_ids(numbers, at, inside, tl.load(last_logit + row), tl.load(last_id + row))
        weight = tl.exp((numbers - tl.load(row_weights + b * 2)) / tl.load(temperature + b))
        p = tl.where(kept, weight / tl.load(row_weights + b * 2 + 1), 0.0)
        q = tl.zeros((BLOCK_V,), tl.float32)
        for entry in range(KQ):
            stated = tl.load(q_ids + row * KQ + entry)
            q += tl.where(at == stated, tl.load(q_probs + row * KQ + entry), 0.0)
        position = tl.load(past_lengths + b) + tl.load(logit_rows + row) + 1
        race = 1.0 / exponential(noise_bits(tl.load(seed + b), position, at, RESIDUAL))
        left, winner_left = lowest_at_largest(tl.maximum(p - q, 0.0) * race, at, inside)
        whole, winner_whole = lowest_at_largest(p * race, at, inside)
    place = (b * NT + tile) * 2
    tl.store(race_values + place, left)
    tl.store(race_values + place + 1, whole)
    tl.store(race_ids + place, winner_left)
    tl.store(race_ids + place + 1, winner_whole)
