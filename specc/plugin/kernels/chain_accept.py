"""Kernel: partials to what a call emits, for the modes that compare ids (greedy, coupled). Grid (B)."""

from __future__ import annotations

import triton
import triton.language as tl

from specc.plugin.kernels.rows import (
    COLDEST,
    IDS_OF_MODE,
    MODE_GREEDY,
    VALUES_OF_MODE,
    draft_of_row,
    greedy_of_row,
    inside_vocabulary,
    perturbed_of_row,
)


@triton.jit
def chain_accept(
    values, ids, input_ids, num_tokens, past_lengths, logit_rows, num_draft, temperature,
    R, S, V, NT,
    tokens, num_accepted, next_token, next_past, accepted_rows,
    MODE: tl.constexpr,
):  # fmt: skip
    """Write the outputs of a sequence.

    Args:
        values, ids: of `row_partials`.
        input_ids: int64 [B,S]. num_tokens, past_lengths, num_draft: int64 [B]. logit_rows: int64 [B,R].
        temperature: float32 [B].
        tokens, accepted_rows: int64 [B,R]. num_accepted, next_token, next_past: int64 [B].
    """
    fields: tl.constexpr = VALUES_OF_MODE[MODE]
    marks: tl.constexpr = IDS_OF_MODE[MODE]
    b = tl.program_id(0)
    active = tl.load(num_tokens + b) > 0
    past = tl.load(past_lengths + b)
    drafted = tl.load(num_draft + b)
    warmth = 1.0
    sampled = False
    if MODE != MODE_GREEDY:
        warmth = tl.load(temperature + b)
        sampled = warmth >= COLDEST
    going = active
    accepted = 0
    own = -1
    for j in range(R):
        row = b * R + j
        token = -1
        kept_row = tl.full((), -1, tl.int64)
        if going:
            at_values = values + row * NT * fields
            at_ids = ids + row * NT * marks
            best, winner = greedy_of_row(at_values, at_ids, NT, fields, marks)
            if sampled:
                winner = perturbed_of_row(at_values, at_ids, best, warmth, NT, fields, marks)
            token = inside_vocabulary(winner, V)
            kept_row = past + tl.load(logit_rows + row)
            right = (j < drafted) & (draft_of_row(input_ids, logit_rows, b, j, R, S) == token)
            if right:
                accepted += 1
            else:
                own = token
                going = False
        tl.store(tokens + row, token.to(tl.int64))
        tl.store(accepted_rows + row, kept_row)
    beyond = past + tl.load(logit_rows + b * R) + accepted + 1
    tl.store(num_accepted + b, accepted.to(tl.int64))
    tl.store(next_token + b, own.to(tl.int64))
    tl.store(next_past + b, tl.where(active, beyond, past))
