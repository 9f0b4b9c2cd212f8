"""Kernel: partials to how many drafts are accepted, for rejection. Grid (B).

Where the refused draft was determined, not drawn, p without it is what is left, and its winner is among the partials.
Where it was drawn from a stated q, the own token is left to the second pass (`residual_partials`).
"""

from __future__ import annotations

import triton
import triton.language as tl

from specc.plugin.kernels.noise import noise_bits, uniform
from specc.plugin.kernels.rows import (
    COLDEST,
    draft_of_row,
    greedy_of_row,
    inside_vocabulary,
    perturbed_of_row,
    q_of_draft,
    weights_of_row,
)
from specc.speculation.noise import Stream

ACCEPT = tl.constexpr(int(Stream.ACCEPT))


@triton.jit
def chain_judge(
    values, ids, input_ids, num_tokens, past_lengths, logit_rows, num_draft, temperature, seed, q_ids, q_probs,
    R, S, V, KQ, NT,
    num_accepted, own_token, row_weights,
    BLOCK_Q: tl.constexpr,
):  # fmt: skip
    """Write what a sequence accepts, and its own token where the partials tell it.

    Args:
        values, ids: of `row_partials` in rejection mode.
        input_ids: int64 [B,S]. num_tokens, past_lengths, num_draft, seed: int64 [B]. logit_rows: int64 [B,R].
        temperature: float32 [B]. q_ids, q_probs: int64, float32 [B,R,KQ].
        num_accepted, own_token: int64 [B]; an own token of -1 is to be drawn from max(p - q, 0), -2 idles.
        row_weights: float32 [B,2], maximum and total weight of the row after the accepted drafts.
    """
    b = tl.program_id(0)
    active = tl.load(num_tokens + b) > 0
    past = tl.load(past_lengths + b)
    drafted = tl.load(num_draft + b)
    warmth = tl.load(temperature + b)
    key = tl.load(seed + b)
    sampled = warmth >= COLDEST
    going = active
    accepted = 0
    own = -2
    most = 0.0
    weight = 1.0
    for j in range(R):
        if going:
            row = b * R + j
            at_values = values + row * NT * 4
            at_ids = ids + row * NT * 2
            best, winner = greedy_of_row(at_values, at_ids, NT, 4, 2)
            draft = draft_of_row(input_ids, logit_rows, b, j, R, S)
            listed, q = q_of_draft(q_ids, q_probs, row, draft, V, KQ, BLOCK_Q)
            passes = draft == inside_vocabulary(winner, V)
            total = 1.0
            if sampled:
                total, of_draft = weights_of_row(at_values, best, warmth, NT, 4)
                bits = noise_bits(key, past + tl.load(logit_rows + row) + 1, tl.full((), 0, tl.int32), ACCEPT)
                passes = uniform(bits) * q < of_draft / total
                winner = perturbed_of_row(at_values, at_ids, best, warmth, NT, 4, 2)
            judged = j < drafted
            if judged & passes:
                accepted += 1
            else:
                own = tl.where(sampled & judged & listed, -1, inside_vocabulary(winner, V))
                most = best
                weight = total
                going = False
    tl.store(num_accepted + b, accepted.to(tl.int64))
    tl.store(own_token + b, own.to(tl.int64))
    tl.store(row_weights + b * 2, most)
    tl.store(row_weights + b * 2 + 1, weight)
