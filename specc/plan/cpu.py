"""Seconds of one call on a CPU, from what `specc probe` measured there. docs/planning.md derives the sum.

    T = nodes + products + attention + logits

Unlike on a GPU, nothing is hidden behind anything else: operators run one after the other, each on all threads.
"""

from __future__ import annotations

from typing import Final

from specc.plan.limits import bucket_of
from specc.plan.machine import Machine
from specc.plan.products import PRODUCT_BITS, Products
from specc.plan.shape import ModelShape, distinct_experts

CALL_NODES: Final = 90
"""Operators of a call that do not depend on its layers: positions, masks, picking and accepting."""
LAYER_NODES: Final = 18
"""Operators of a layer beside products and attention: norms, rotations, activation, reshapes, writing the cache."""
FUSED_LAYER_NODES: Final = 9
"""The same where attention rotates and writes the cache by itself."""
WALKS: Final = 1.5
"""How often operators walk over an element that goes into a product or comes out of one; counted in the graphs."""
EXPERT_NODES: Final = 12
"""Operators of one expert, whether or not a token chose it."""
PICK_BYTES: Final = 16
"""Moved for one logit while the largest is found: written, scaled, read once."""


def cpu_seconds(
    shape: ModelShape, machine: Machine, batch: int, tokens: int, context: int, *, logit_rows: int
) -> float:
    """Return the predicted seconds of one call.

    Args:
        shape: of the model.
        machine: measured.
        batch: B rows.
        tokens: S new tokens of each row.
        context: cached tokens of each row.
        logit_rows: tokens of a row that get logits.
    """
    rows, heads = batch * tokens, batch * logit_rows
    return (
        (CALL_NODES + EXPERT_NODES * shape.expert_blocks) * machine.node_seconds
        + (FUSED_LAYER_NODES if _fused(shape, batch) else LAYER_NODES)
        * shape.layers
        * machine.between.seconds(1.0, _walked_elements(shape), rows)
        + sum(_product_seconds(p, shape, machine, rows, heads) for p in shape.products)
        + _attention_seconds(shape, machine, batch, tokens, context)
        + heads * shape.vocab_size * PICK_BYTES / machine.thread_bytes
    )


def call_traffic(shape: ModelShape, batch: int, tokens: int, context: int) -> tuple[float, float]:
    """Return the bytes that a call moves, and its operations: where it stands under a roofline."""
    rows, reached = batch * tokens, _reached_share(shape, batch * tokens)
    read = sum(
        p.weights * PRODUCT_BITS[p.element] / 8 * (reached if p.part == "expert" else 1.0) for p in shape.products
    )
    multiplied = 2.0 * rows * sum(p.weights * _share(p, shape) for p in shape.products)
    cached = batch * bucket_of(context + tokens)
    return (
        read + cached * shape.cache_row_bytes + rows * shape.vocab_size * PICK_BYTES,
        multiplied + shape.score_flops * tokens * cached,
    )


def _product_seconds(products: Products, shape: ModelShape, machine: Machine, rows: int, heads: int) -> float:
    cost = machine.products[products.element]
    if products.part != "expert":
        of_each = heads if products.part == "head" else rows
        return products.count * cost.seconds(products.inputs, products.outputs, of_each)
    reached = _reached_share(shape, rows)  # each token has so many experts, which share those that are reached
    chosen = rows * _share(products, shape) / reached
    return products.count * reached * cost.seconds(products.inputs, products.outputs, chosen)


def _attention_seconds(shape: ModelShape, machine: Machine, batch: int, tokens: int, context: int) -> float:
    """Query heads of one key-value head are more queries of it; heads take turns on the threads.

    Cache rows that are bound but masked cost what others do. Fused attention reads none of those, but each query head
    by itself, and has one query more of each row, but over int8.
    """
    if _fused(shape, batch):
        turns = -(-batch * shape.num_attention_heads // machine.threads)
        if shape.int8_caches:
            return shape.layers * machine.int8_attention.seconds(shape.head_dim, context + tokens, tokens, turns)
        return shape.layers * machine.attention.seconds(shape.head_dim, context + tokens + 1, tokens + 1, turns)
    turns = -(-batch * shape.num_key_value_heads // machine.threads)
    queries = tokens * shape.num_attention_heads / shape.num_key_value_heads
    cached = bucket_of(context + tokens)
    return shape.layers * machine.attention.seconds(shape.head_dim, cached, queries, turns)


def _fused(shape: ModelShape, batch: int) -> bool:
    """Return whether one operator attends; there is no other over int8."""
    return shape.int8_caches or batch <= shape.fused_attention_rows


def _walked_elements(shape: ModelShape) -> float:
    """Return the elements of a token that an operator of a layer walks over, on average."""
    ends = sum(_share(p, shape) * p.count * (p.inputs + p.outputs) for p in shape.products if p.part != "head")
    return WALKS * ends / (LAYER_NODES * shape.layers)


def _share(products: Products, shape: ModelShape) -> float:
    """Return how many of these products one token goes through, as a share."""
    return shape.experts_per_token / shape.experts if products.part == "expert" else 1.0


def _reached_share(shape: ModelShape, rows: int) -> float:
    return distinct_experts(shape.experts, shape.experts_per_token, rows) / shape.experts if shape.experts else 0.0
