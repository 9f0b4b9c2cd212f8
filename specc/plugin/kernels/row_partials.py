"""Kernel: logits of all rows to partials a tile. Grid (B R, tiles)."""

from __future__ import annotations

import triton
import triton.language as tl

from specc.plugin.kernels.rows import (
    COLDEST,
    IDS_OF_MODE,
    LOWEST,
    MODE_GREEDY,
    MODE_REJECTION,
    NO_ID,
    VALUES_OF_MODE,
    draft_of_row,
    logits_of_tile,
    q_of_draft,
    store_partials,
)


@triton.jit
def row_settings(
    input_ids, num_tokens, past_lengths, logit_rows, num_draft, temperature, seed, last_logit, last_id, q_ids, q_probs,
    row, R, S, V, KQ, MODE: tl.constexpr, BLOCK_Q: tl.constexpr,
):  # fmt: skip
    """Return what `store_partials` needs to know of a row, in its order."""
    draft = -1
    excluded = -1
    last = LOWEST
    last_kept = NO_ID
    warmth = 1.0
    key = tl.full((), 0, tl.int64)
    position = tl.full((), 0, tl.int64)
    noisy = False
    sampled = False
    if MODE != MODE_GREEDY:
        b = row // R
        j = row % R
        warmth = tl.load(temperature + b)
        sampled = warmth >= COLDEST
        last = tl.load(last_logit + row)
        last_kept = tl.load(last_id + row)
        key = tl.load(seed + b)
        position = tl.load(past_lengths + b) + tl.load(logit_rows + row) + 1
        noisy = sampled
        if MODE == MODE_REJECTION:
            judges = (j < tl.load(num_draft + b)) & (tl.load(num_tokens + b) > 0)
            draft = draft_of_row(input_ids, logit_rows, b, j, R, S)
            listed, _ = q_of_draft(q_ids, q_probs, row, draft, V, KQ, BLOCK_Q)
            # A drawn draft that is refused leaves p - q, which the second pass draws from.
            noisy = sampled & ((judges == 0) | (listed == 0))
            excluded = tl.where(judges, draft, -1)
    return draft, last, last_kept, warmth, key, position, excluded, noisy, sampled


@triton.jit
def row_partials(
    logits, input_ids, num_tokens, past_lengths, logit_rows, num_draft, temperature, seed, last_logit, last_id, q_ids,
    q_probs,
    R, S, V, W, KQ, NT,
    values, ids,
    MODE: tl.constexpr, BLOCK_V: tl.constexpr, BLOCK_Q: tl.constexpr,
):  # fmt: skip
    """Write partials of a tile.

    Args:
        logits: [B,R,W], float32, float16 or bfloat16; ids from V on are padding of the head.
        input_ids: int64 [B,S]. num_tokens, past_lengths, num_draft, seed: int64 [B]. logit_rows: int64 [B,R].
        temperature: float32 [B].
        last_logit, last_id: float32, int32 [B,R], the last kept id of a row (`row_thresholds`).
        q_ids, q_probs: int64, float32 [B,R,KQ].
        NT: tiles.
        values, ids: float32 [B,R,NT,VALUES], int32 [B,R,NT,IDS], see `store_partials`; the last sizes are the mode's.
    """
    row = tl.program_id(0)
    tile = tl.program_id(1)
    draft, last, last_kept, warmth, key, position, excluded, noisy, sampled = row_settings(
        input_ids, num_tokens, past_lengths, logit_rows, num_draft, temperature, seed, last_logit, last_id, q_ids,
        q_probs, row, R, S, V, KQ, MODE, BLOCK_Q,
    )  # fmt: skip
    at = tile * BLOCK_V + tl.arange(0, BLOCK_V)
    inside = at < V
    numbers = logits_of_tile(logits + row.to(tl.int64) * W, at, V, W)
    place = row * NT + tile
    fields: tl.constexpr = VALUES_OF_MODE[MODE]
    marks: tl.constexpr = IDS_OF_MODE[MODE]
    store_partials(
        numbers, at, inside, values + place * fields, ids + place * marks,
        draft, last, last_kept, warmth, key, position, excluded, noisy, sampled, MODE,
    )  # fmt: skip
