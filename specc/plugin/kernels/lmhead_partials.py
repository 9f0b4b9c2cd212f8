"""Kernel: hidden states and the head to partials a tile, so that logits never reach memory. Grid (tiles, row blocks).

The vocabulary is the long side of the product: 128 ids by 16 rows take the tensor cores of every GPU generation.
Sums are rounded to the graph's dtype before they are compared, as a separate product would leave them.
"""

from __future__ import annotations

import triton
import triton.language as tl

from specc.plugin.kernels.rows import LOWEST, NO_ID


@triton.jit
def lmhead_partials(
    hidden, weight,
    ROWS, V, H, NT,
    values, ids,
    BLOCK_V: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_H: tl.constexpr, UPCAST: tl.constexpr,
):  # fmt: skip
    """Write the maximum of each row in a tile, and the lowest id that has it.

    Args:
        hidden: [ROWS,H], float16 or bfloat16.
        weight: [V or more,H], of the same dtype.
        values, ids: float32, int32 [ROWS,NT], those of `row_partials` in greedy mode with tiles of BLOCK_V ids.
        UPCAST: multiply in float32, for the interpreter, whose product of bfloat16 is wrong.
    """
    tile = tl.program_id(0)
    block = tl.program_id(1)
    at = tile * BLOCK_V + tl.arange(0, BLOCK_V)
    row = block * BLOCK_R + tl.arange(0, BLOCK_R)
    column = tl.arange(0, BLOCK_H)
    sums = tl.zeros((BLOCK_V, BLOCK_R), tl.float32)
    in_head = (at < V)[:, None]
    in_rows = (row < ROWS)[None, :]
    at_weight = weight + at.to(tl.int64)[:, None] * H
    at_hidden = hidden + row[None, :] * H
    for start in range(0, H, BLOCK_H):
        h = start + column
        w = tl.load(at_weight + h[None, :], in_head & (h < H)[None, :], 0.0)
        x = tl.load(at_hidden + h[:, None], in_rows & (h < H)[:, None], 0.0)
        if UPCAST:
            w = w.to(tl.float32)
            x = x.to(tl.float32)
        sums = tl.dot(w, x, sums)
    logits = sums.to(hidden.dtype.element_ty).to(tl.float32)  # [BLOCK_V, BLOCK_R]
    logits = tl.where(in_head, logits, LOWEST)
    largest = tl.max(logits, axis=0)
    lowest = tl.min(tl.where(in_head & (logits == largest[None, :]), at[:, None], NO_ID), axis=0)
    place = row * NT + tile
    tl.store(values + place, largest, row < ROWS)
    tl.store(ids + place, lowest, row < ROWS)
