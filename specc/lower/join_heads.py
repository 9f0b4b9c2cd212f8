"""Pass: bring the heads of queries, keys and values into the order of attention together where one product gave them.

    Split -> Reshape, Transpose of each  ->  Reshape, Transpose -> Split

Four nodes a layer less: at one token a call, a step of a small model is a thousand nodes whose start counts.
"""

from __future__ import annotations

from typing import Final

import onnx_ir as ir

from specc.graph.builder import Builder
from specc.lower.lowering_pass import LoweringPass
from specc.lower.take_place import take_place
from specc.plan.plan import GraphPlan

_PERM: Final = [0, 2, 1, 3]


def _apply(model: ir.Model, graph: GraphPlan) -> None:  # noqa: ARG001 - the form of a pass
    for node in list(model.graph.all_nodes()):
        if node.op_type == "Split" and isinstance(node.graph, ir.Graph):
            layouts = [_layout(part) for part in node.outputs]
            found = [layout for layout in layouts if layout is not None]
            if len(found) == len(layouts) and len({dim for _, _, dim in found}) == 1:
                _join(node.graph, node, found)


def _layout(part: ir.Value) -> tuple[ir.Node, int, int] | None:
    """Return the Transpose to [B, heads, S, D] of a part [B, S, heads D], with heads and D; None of another use."""
    reshape = _only_user(part, "Reshape")
    transpose = None if reshape is None else _only_user(reshape.outputs[0], "Transpose")
    sizes = None if reshape is None else reshape.inputs[1]
    shape = None if sizes is None else ir.convenience.get_const_tensor(sizes)
    if transpose is None or shape is None or list(transpose.attributes["perm"].as_ints()) != _PERM:
        return None
    batch, tokens, heads, dim = shape.numpy().tolist()
    return (transpose, heads, dim) if (batch, tokens) == (0, 0) else None


def _only_user(value: ir.Value, op_type: str) -> ir.Node | None:
    users = list(value.uses())
    return users[0].node if len(users) == 1 and users[0].node.op_type == op_type else None


def _join(owner: ir.Graph, split: ir.Node, layouts: list[tuple[ir.Node, int, int]]) -> None:
    counts = [heads for _, heads, _ in layouts]
    builder = Builder()
    with builder.scope(str(split.inputs[0].name if split.inputs[0] is not None else split.name)):
        shape = builder.i64(0, 0, sum(counts), layouts[0][2])
        heads = builder.op("Reshape", split.inputs[0], shape, name="heads")  # [B, S, N + 2 KV, D]
        ordered = builder.op("Transpose", heads, name="ordered", perm=_PERM)  # [B, N + 2 KV, S, D]
        names = [f"part_{index}" for index in range(len(counts))]
        parts = builder.ops("Split", ordered, builder.i64(*counts), outputs=names, axis=1)
    owner.insert_before(split, builder.nodes)
    for (transpose, _, _), part in zip(layouts, parts, strict=True):
        take_place(part, transpose.outputs[0])
        reshaped = transpose.inputs[0]
        reshape = None if reshaped is None else reshaped.producer()
        owner.remove([transpose, *([reshape] if reshape is not None else [])], safe=True)
    owner.remove(split, safe=True)


JOIN_HEADS: Final = LoweringPass(
    "join_heads", ("one product for matrices of one input",), ("one layout of heads a layer",), _apply
)
