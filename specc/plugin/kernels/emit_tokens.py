"""Kernel: the outputs of a call in rejection mode, from its accepted drafts and its own token. Grid (B)."""

from __future__ import annotations

import triton
import triton.language as tl

from specc.plugin.kernels.rows import CHUNK, LOWEST, NO_ID, better_of, inside_vocabulary, lowest_at_largest


@triton.jit
def winner_of_field(values, ids, NT, FIELD: tl.constexpr):
    """Return the largest of a field of `residual_partials` and its lowest id."""
    best = LOWEST
    winner = NO_ID
    for start in range(0, NT, CHUNK):
        tile = start + tl.arange(0, CHUNK)
        inside = tile < NT
        value = tl.load(values + tile * 2 + FIELD, inside, LOWEST)
        at = tl.load(ids + tile * 2 + FIELD, inside, NO_ID)
        largest, lowest = lowest_at_largest(value, at, inside)
        best, winner = better_of(best, winner, largest, lowest)
    return best, winner


@triton.jit
def emit_tokens(
    race_values, race_ids, input_ids, num_tokens, past_lengths, logit_rows, num_accepted, own_token,
    R, S, V, NT,
    tokens, next_token, next_past, accepted_rows,
):  # fmt: skip
    """Write the outputs of a sequence.

    Args:
        race_values, race_ids: of `residual_partials`.
        input_ids: int64 [B,S]. num_tokens, past_lengths: int64 [B]. logit_rows: int64 [B,R].
        num_accepted, own_token: of `chain_judge`.
        tokens, accepted_rows: int64 [B,R]. next_token, next_past: int64 [B].
    """
    b = tl.program_id(0)
    active = tl.load(num_tokens + b) > 0
    past = tl.load(past_lengths + b)
    accepted = tl.load(num_accepted + b)
    own = tl.load(own_token + b)
    if own == -1:
        left, winner_left = winner_of_field(race_values + b * NT * 2, race_ids + b * NT * 2, NT, 0)
        _, winner_whole = winner_of_field(race_values + b * NT * 2, race_ids + b * NT * 2, NT, 1)
        own = inside_vocabulary(tl.where(left > 0, winner_left, winner_whole), V).to(tl.int64)
    own = tl.where(active, own, -1)
    for j in range(R):
        row = b * R + j
        at = tl.load(logit_rows + row)
        following = tl.load(logit_rows + b * R + tl.minimum(j + 1, R - 1))
        draft = tl.load(input_ids + b * S + following)
        emitted = active & (j <= accepted)
        token = tl.where(j < accepted, draft, own)
        tl.store(tokens + row, tl.where(emitted, token, -1))
        tl.store(accepted_rows + row, tl.where(emitted, past + at, -1))
    tl.store(next_token + b, own)
    beyond = past + tl.load(logit_rows + b * R) + accepted + 1
    tl.store(next_past + b, tl.where(active, beyond, past))
