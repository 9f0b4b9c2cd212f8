"""Pass: rotate, write the cache and attend with one operator of ONNX Runtime, where the plan says so.

    Reshape, Transpose, RotaryEmbedding, TensorScatter, Attention, Transpose, Reshape  ->  Concat, GroupQueryAttention,
    Slice

A node of a small model costs what it takes to find its code and shapes again, which the weights push out of the
processor's caches: 2 to 3 us each, and one such chain a layer has twelve of them. The operator also reads the rows that
a sequence has, not those that its cache could hold.

It attends with one kernel from two queries of a row on and with another, of other last bits, for a single one. So each
row gets one query more, behind its last: a padding row of zeros, or of what pads the row already. Nobody sees its
result; its key lies behind the row's own, where a later call overwrites it. That is the spare row of
`EngineSpec.spare_rows`, and why a token's result is the same to the last bit in every call.

Over int8 caches it has one kernel for any number of queries and needs no such row. Each channel of a cache then has a
scale: an initializer that `weights.py` writes, by the name of `cache_scale`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from specc.errors import SpeccBug
from specc.graph.builder import Builder, declared
from specc.lower.attention_shape import AttentionShape, attentions
from specc.lower.cache_scales import cache_scale
from specc.lower.lowering_pass import LoweringPass
from specc.lower.operators import MICROSOFT
from specc.lower.take_place import take_place
from specc.plan.plan import GraphPlan


@dataclass(frozen=True)
class _Calls:
    """What the attentions of a graph share.

    Attributes:
        builder: of the nodes before them.
        int8: caches are int8; no row gets a query more.
        fed: int32 [B], queries of each row, with the one more where rows get one; of an idle row one.
        last: int32 [B], the cache row that the last of them is written to.
        capacity: int32, C.
        batch: int64 [1], B.
        tokens: int64 [1], S.
        first, axis: int64 [1], 0 and 1.
        zeros: float32 [B, 1, W] by W.
    """

    builder: Builder
    int8: bool
    fed: ir.Value
    last: ir.Value
    capacity: ir.Value
    batch: ir.Value
    tokens: ir.Value
    first: ir.Value
    axis: ir.Value
    zeros: dict[int, ir.Value] = field(default_factory=dict)

    def padded(self, builder: Builder, flat: ir.Value, width: int) -> ir.Value:
        """Return a value [B, S, width] with a row of zeros behind, [B, S + 1, width]; over int8 caches as it is."""
        if self.int8:
            return flat
        if width not in self.zeros:
            with self.builder.scope("attention"):
                zero = self.builder.constant(np.zeros((1, 1, width), dtype=np.float32), f"zero_{width}")
                shape = self.builder.op("Concat", self.batch, self.builder.i64(1, width), name="row_shape", axis=0)
                self.zeros[width] = self.builder.op("Expand", zero, shape, name=f"zeros_{width}")
        return builder.op("Concat", flat, self.zeros[width], name=f"{flat.name}.padded", axis=1)

    def cut(self, builder: Builder, padded: ir.Value, name: str) -> ir.Value:
        """Return a value of `padded` length without the row behind, [B, S, N D]."""
        if self.int8:
            return padded
        return builder.op("Slice", padded, self.first, self.tokens, self.axis, name=name)


@dataclass(frozen=True)
class _Chain:
    """The operators of one attention.

    Attributes:
        query, key, value: [B, S, heads D], before heads were told apart.
        cos, sin: the tables of rotation.
        caches: [B, KV, C, D], what the graph is given.
        written: the same, what it gives back.
        joined: [B, S, N D], what attention gives.
    """

    query: ir.Value
    key: ir.Value
    value: ir.Value
    cos: ir.Value
    sin: ir.Value
    caches: tuple[ir.Value, ir.Value]
    written: tuple[ir.Value, ir.Value]
    joined: ir.Value


def _apply(model: ir.Model, graph: GraphPlan) -> None:
    if graph.attention == "native":
        return
    calls: _Calls | None = None
    for attention in attentions(model):
        chain = _chain(attention)
        calls = calls or _calls(model, chain.caches[0], int8=graph.int8_caches)
        _fuse(attention, chain, calls, model)
    if calls is None:
        raise SpeccBug("fused attention was planned for a graph that has no attention")
    model.graph.insert_before(model.graph[0], calls.builder.nodes)
    model.graph.opset_imports[MICROSOFT] = 1
    RemoveUnusedNodesPass()(model)


def _calls(model: ir.Model, cache: ir.Value, *, int8: bool) -> _Calls:
    given = {str(value.name): value for value in model.graph.inputs}
    builder = Builder()
    with builder.scope("attention"):
        one = builder.i64_scalar(1)
        # An idle row must have a query, too: that of a padding row, whose key lies where a later call overwrites it.
        fed = builder.op("Max" if int8 else "Add", given["num_tokens"], one, name="queries")
        rows = builder.op("Add", given["past_lengths"], fed, name="cached")
        last = builder.op("Sub", rows, one, name="last")
        length = builder.op("Squeeze", builder.op("Shape", cache, name="rows", start=2, end=3), name="capacity")
        fed32, last32, length32 = (
            builder.op("Cast", value, name=f"{name}_i32", to=ir.DataType.INT32)
            for name, value in (("queries", fed), ("last", last), ("capacity", length))
        )
        return _Calls(
            builder,
            int8=int8,
            fed=fed32,
            last=last32,
            capacity=length32,
            batch=builder.op("Shape", given["input_ids"], name="batch", start=0, end=1),
            tokens=builder.op("Shape", given["input_ids"], name="tokens", start=1, end=2),
            first=builder.i64(0),
            axis=builder.i64(1),
        )


def _chain(attention: AttentionShape) -> _Chain:
    node = attention.node
    turned = _made_by(node, attention.query, "RotaryEmbedding")
    key_cache, keys = _written(node, 1)
    value_cache, values = _written(node, 2)
    turned_keys = _made_by(node, keys, "RotaryEmbedding")
    if turned.attributes.get("rotary_embedding_dim") is not None or turned.inputs[1:] != turned_keys.inputs[1:]:
        raise SpeccBug(f"{node.name}: queries and keys are to be rotated alike, and whole")
    joined = _only_user(node, _only_user(node, node.outputs[0], "Transpose"), "Reshape")
    return _Chain(
        query=_flat(node, turned.inputs[0]),
        key=_flat(node, turned_keys.inputs[0]),
        value=_flat(node, values),
        cos=_given(node, turned.inputs[1]),
        sin=_given(node, turned.inputs[2]),
        caches=(key_cache, value_cache),
        written=(_given(node, node.inputs[1]), _given(node, node.inputs[2])),
        joined=joined,
    )


def _fuse(attention: AttentionShape, chain: _Chain, calls: _Calls, model: ir.Model) -> None:
    node, builder = attention.node, Builder()
    parts = (chain.query, chain.key, chain.value)
    widths = [heads * attention.dim for heads in (attention.heads, attention.kv_heads, attention.kv_heads)]
    product = _whole(parts)
    if product is not None:
        queries = [calls.padded(builder, product, sum(widths)), None, None]
    else:
        queries = [calls.padded(builder, part, width) for part, width in zip(parts, widths, strict=True)]
    scale = node.attributes.get("scale")
    scales, form = _cache_scales(attention, model) if calls.int8 else ((None, None), {})
    mixed, keys, values = builder.ops(
        "GroupQueryAttention",
        *queries, *chain.caches, calls.last, calls.capacity, chain.cos, chain.sin, *[None] * 3, *scales, *[None] * 2,
        calls.fed,
        outputs=(f"{node.name}.padded", f"{node.name}.keys", f"{node.name}.values"),
        domain=MICROSOFT, num_heads=attention.heads, kv_num_heads=attention.kv_heads, do_rotary=1,
        scale=0.0 if scale is None else scale.as_float(), **form,
    )  # fmt: skip
    cut = calls.cut(builder, mixed, f"{node.name}.rows")
    after = chain.joined.producer()
    if after is None:
        raise SpeccBug(f"{node.name}: no operator joins its heads")
    attention.owner.insert_before(after, builder.nodes)
    for new, old in zip((cut, keys, values), (chain.joined, *chain.written), strict=True):
        take_place(new, old)
    if calls.int8:
        for value in (*chain.caches, keys, values):
            value.type = ir.TensorType(ir.DataType.INT8)


def _cache_scales(attention: AttentionShape, model: ir.Model) -> tuple[tuple[ir.Value, ir.Value], dict[str, Any]]:
    """Return the scales of keys and of values, float32 [KV D], and the attributes that say what they are."""
    found = []
    for kind in ("k", "v"):
        name = cache_scale(f"{str(attention.node.name).removesuffix('.attention')}.{kind}_cache")
        found.append(declared(name, "f32", (attention.kv_heads * attention.dim,)))
        model.graph.initializers[name] = found[-1]
    form = {"k_quant_type": "PER_CHANNEL", "v_quant_type": "PER_CHANNEL", "kv_cache_bit_width": 8}
    return (found[0], found[1]), form


def _whole(parts: tuple[ir.Value, ...]) -> ir.Value | None:
    """Return the product that was split into just these parts, in this order; None of others."""
    split = parts[0].producer()
    return split.inputs[0] if split is not None and split.op_type == "Split" and split.outputs == parts else None


def _flat(node: ir.Node, heads: ir.Value | None) -> ir.Value:
    """Return [B, S, heads D] of heads [B, heads, S, D]."""
    transpose = _made_by(node, heads, "Transpose")
    return _given(node, _made_by(node, transpose.inputs[0], "Reshape").inputs[0])


def _written(node: ir.Node, index: int) -> tuple[ir.Value, ir.Value]:
    """Return a cache as it is given, and what is written into it."""
    scatter = _made_by(node, node.inputs[index], "TensorScatter")
    return _given(node, scatter.inputs[0]), _given(node, scatter.inputs[1])


def _made_by(node: ir.Node, value: ir.Value | None, op_type: str) -> ir.Node:
    made = None if value is None else value.producer()
    if made is None or made.op_type != op_type:
        raise SpeccBug(f"{node.name}: {None if value is None else value.name} is no result of {op_type}")
    return made


def _only_user(node: ir.Node, value: ir.Value, op_type: str) -> ir.Value:
    users = [usage.node for usage in value.uses()]
    if len(users) != 1 or users[0].op_type != op_type:
        raise SpeccBug(f"{node.name}: {value.name} goes to {len(users)} operators, not to one {op_type}")
    return users[0].outputs[0]


def _given(node: ir.Node, value: ir.Value | None) -> ir.Value:
    if value is None:
        raise SpeccBug(f"{node.name}: an operator of its chain lacks an input")
    return value


USE_GROUPQUERYATTENTION: Final = LoweringPass(
    "use_groupqueryattention", ("one product for matrices of one input",), ("attention as planned",), _apply
)
"""Applied before heads are joined: it takes what products give, before heads are told apart."""
