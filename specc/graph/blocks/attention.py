"""Self-attention over a linear cache that is written in place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

from specc.checkpoint.facts import PLAIN_LAYER, LayerFacts, ModelFacts
from specc.graph.blocks.linear import linear
from specc.graph.blocks.norm import rms_norm
from specc.graph.blocks.rotary import Rotary
from specc.graph.builder import DATA_TYPES, Builder
from specc.plan.plan import GraphPlan


@dataclass(frozen=True)
class AttentionStep:
    """What the attention of layers with the same window shares in one step.

    Attributes:
        past_lengths: int64 [B], where this step's rows go in the cache.
        mask: bool [B, 1, S, C], true where a query may look.
        rotary: tables and positions.
        in_place: the rows are written into the cache, which is attended to; otherwise they are appended to what was
            given as the cache, and whoever reads the step writes them.
    """

    past_lengths: ir.Value
    mask: ir.Value
    rotary: Rotary
    in_place: bool = True


def causal_mask(builder: Builder, positions: ir.Value, cache: ir.Value, window: int = 0) -> ir.Value:
    """Return the mask of one step: cache row k is visible to a query at position p iff p - window < k <= p.

    It also hides stale rows. An explicit mask, because TensorRT-RTX drops `nonpad_kv_seqlen` without a word and would
    then align a causal mask at the wrong end.

    Args:
        builder: where the nodes go.
        positions: int64 [B, S], absolute positions of the queries.
        cache: any cache, [B, KV, C, D]; it tells C.
        window: tokens that a query sees, itself included; 0: all up to its own. The cache keeps the others, so that a
            rollback finds them again.

    Returns:
        bool [B, 1, S, C].
    """
    capacity = builder.op("Shape", cache, name="mask.capacity", start=2, end=3)  # [1]
    count = builder.op("Squeeze", capacity, name="mask.count")
    rows = builder.op("Range", builder.i64_scalar(0), count, builder.i64_scalar(1), name="mask.rows")  # [C]
    return visible_keys(builder, rows, positions, window)


def visible_keys(builder: Builder, keys: ir.Value, positions: ir.Value, window: int) -> ir.Value:
    """Return which keys the queries see: position p sees k iff p - window < k <= p, or k <= p where window is 0.

    Args:
        builder: where the nodes go.
        keys: int64 [T] or [B, 1, 1, T], positions of the keys.
        positions: int64 [B, S], of the queries.
        window: see `causal_mask`.

    Returns:
        bool [B, 1, S, T].
    """
    queries = builder.op("Unsqueeze", positions, builder.i64(1, 3), name="mask.queries")  # [B, 1, S, 1]
    if window == 0:
        return builder.op("LessOrEqual", keys, queries, name="mask")  # [B, 1, S, T]
    past = builder.op("LessOrEqual", keys, queries, name="mask.past")
    first = builder.op("Sub", queries, builder.i64_scalar(window), name="mask.before_window")
    near = builder.op("Greater", keys, first, name="mask.near")
    return builder.op("And", past, near, name=f"mask.window_{window}")  # [B, 1, S, T]


def attention(
    builder: Builder,
    x: ir.Value,
    name: str,
    *,
    facts: ModelFacts,
    graph: GraphPlan,
    step: AttentionStep,
    caches: tuple[ir.Value, ir.Value],
    layer: LayerFacts = PLAIN_LAYER,
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Return attention of one layer and its updated caches.

    Args:
        builder: where the nodes go.
        x: [B, S, H], normalized.
        name: canonical prefix, as `model.layers.0.self_attn`.
        facts: of the model.
        graph: the dtype.
        step: what layers share.
        caches: key and value cache, [B, KV, C, D], graph inputs; or what an earlier step of a burst returned for them.
        layer: which rotary embedding; its window is in the step's mask.

    Returns:
        output [B, S, H], key cache out, value cache out: graph outputs, of one TensorScatter each, as TensorRT demands;
        of a step that is not in place, the caches and the new rows after them, [B, KV, C + S, D].
    """
    heads, kv_heads, dim = facts.num_attention_heads, facts.num_key_value_heads, facts.head_dim

    def projected(kind: str, count: int) -> ir.Value:
        return _heads(builder, x, f"{name}.{kind}", count, facts=facts, graph=graph)

    query = step.rotary.apply(builder, projected("q", heads), f"{name}.q_rotated", layer.rope)
    dtype, tokens = ir.TensorType(DATA_TYPES[graph.compute_dtype]), "S" if step.in_place else None
    query.type, query.shape = dtype, ir.Shape(("B", heads, tokens, dim))
    key = step.rotary.apply(builder, projected("k", kv_heads), f"{name}.k_rotated", layer.rope)  # [B, KV, S, D]
    value = projected("v", kv_heads)  # [B, KV, S, D]
    key_out, value_out = (
        _with_rows(builder, cache, rows, step, f"{name}.{kind}")
        for kind, cache, rows in (("k", caches[0], key), ("v", caches[1], value))
    )
    key_out.type, key_out.shape = dtype, caches[0].shape if step.in_place else ir.Shape(("B", kv_heads, None, dim))
    mixed = builder.op(
        "Attention", query, key_out, value_out, step.mask, name=f"{name}.attention", **_score_attributes(facts)
    )  # [B, N, S, D]
    joined = builder.op("Transpose", mixed, name=f"{name}.joined_heads", perm=[0, 2, 1, 3])  # [B, S, N, D]
    flat = builder.op("Reshape", joined, builder.i64(0, 0, heads * dim), name=f"{name}.joined")  # [B, S, N*D]
    output = linear(
        builder,
        flat,
        f"{name}.o_proj",
        into=heads * dim,
        out=facts.hidden_size,
        dtype=graph.compute_dtype,
        bias=facts.attention_output_bias,
    )  # [B, S, H]
    return output, key_out, value_out


def _with_rows(builder: Builder, cache: ir.Value, rows: ir.Value, step: AttentionStep, name: str) -> ir.Value:
    if step.in_place:
        return written_cache(builder, cache, rows, step.past_lengths, f"{name}_cache")
    return builder.op("Concat", cache, rows, name=f"{name}_seen", axis=2)


def written_cache(builder: Builder, cache: ir.Value, rows: ir.Value, past_lengths: ir.Value, name: str) -> ir.Value:
    """Return the cache [B, KV, C, D] with rows [B, KV, S, D] written from past_lengths [B] on."""
    return builder.op("TensorScatter", cache, rows, past_lengths, name=name, axis=2, mode="linear")


def _score_attributes(facts: ModelFacts) -> dict[str, Any]:
    """Return the attributes of Attention that a model's scores need; ONNX caps them before it masks them."""
    scales = facts.scales
    stated = {"scale": scales.attention_multiplier, "softcap": scales.attn_logit_softcapping}
    return {name: value for name, value in stated.items() if value is not None}


def _heads(builder: Builder, x: ir.Value, name: str, count: int, *, facts: ModelFacts, graph: GraphPlan) -> ir.Value:
    """Return the projection `name`_proj of x [B, S, H] as heads, [B, count, S, D]."""
    flat = linear(
        builder,
        x,
        f"{name}_proj",
        into=facts.hidden_size,
        out=count * facts.head_dim,
        dtype=graph.compute_dtype,
        bias=facts.attention_bias,
    )  # [B, S, count*D]
    normed = facts.norms.query_key if name.endswith((".q", ".k")) else "none"
    if normed == "width":
        flat = rms_norm(builder, flat, f"{name}_norm", facts, graph, width=count * facts.head_dim)
    split = builder.op("Reshape", flat, builder.i64(0, 0, count, facts.head_dim), name=f"{name}_split")
    if normed == "head":
        split = rms_norm(builder, split, f"{name}_norm", facts, graph, width=facts.head_dim)  # [B, S, count, D]
    return builder.op("Transpose", split, name=f"{name}_heads", perm=[0, 2, 1, 3])
