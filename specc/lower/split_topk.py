"""Pass: take the largest values of a long axis from the blocks with the largest maxima, with the same result.

    maxima of blocks of w neighbours -> the K blocks with the largest maxima, in ascending order -> the K largest of K w

A dropped block's maximum is at most that of the K kept ones, so K values are at least as large. On ties the kept blocks
are those of lower index, so a dropped value has K values before it in the operator's own order, which breaks ties by
index. ONNX Runtime's TopK of 1024 out of 49152 costs 1.5 times as much as the short ones.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import onnx_ir as ir

from specc.errors import SpeccBug
from specc.graph.builder import Builder
from specc.lower.lowering_pass import LoweringPass
from specc.plan.plan import GraphPlan

# Below this many values per result one TopK is as fast.
_WORTH: Final = 16


def _apply(model: ir.Model, graph: GraphPlan) -> None:  # noqa: ARG001 - the form of a pass
    for function in model.functions.values():
        for node in list(function.all_nodes()):
            if node.op_type == "TopK" and node.domain == "" and node.graph is not None:
                values = node.inputs[0]
                width = None if values is None or values.shape is None else values.shape[2]
                count = _count(node)
                if isinstance(width, int) and width >= _WORTH * count:
                    _split(node, width, count)


def _count(node: ir.Node) -> int:
    """Return K of a TopK, which the graphs state as a constant."""
    k = node.inputs[1]
    stated = None if k is None else ir.convenience.get_const_tensor(k)
    if stated is None:
        raise SpeccBug(f"{node.name}: TopK of a count that is no constant")
    return int(stated.numpy().item())


def _split(node: ir.Node, width: int, count: int) -> None:
    values, k = node.inputs[0], node.inputs[1]
    builder = Builder()
    with builder.scope(f"{node.name}.split"):
        block = 1 << round(np.log2(np.sqrt(width / count)))
        blocks = -(-width // block)
        last = builder.i64(-1)
        if blocks * block > width:
            pads = builder.i64(0, blocks * block - width)
            values = builder.op("Pad", values, pads, builder.f32(-np.inf), last, name="padded")
        split = builder.op("Reshape", values, builder.i64(0, 0, blocks, block), name="blocks")  # [B, R, V/w, w]
        maxima = builder.op("ReduceMax", split, last, name="maxima", keepdims=0)  # [B, R, V/w]
        _, kept = builder.ops("TopK", maxima, k, outputs=("kept_maxima", "kept"), axis=-1, sorted=0)
        kept, _ = builder.ops("TopK", kept, k, outputs=("ascending", "order"), axis=-1, largest=0)  # [B, R, K]
        index = builder.op("Unsqueeze", kept, last, name="index")
        gathered = builder.op("GatherND", split, index, name="gathered", batch_dims=2)  # [B, R, K, w]
        flat = builder.op("Reshape", gathered, builder.i64(0, 0, count * block), name="flat")
        largest, place = builder.ops("TopK", flat, k, outputs=("largest", "place"), axis=-1)  # [B, R, K]
        size = builder.i64_scalar(block)
        row = builder.op("Div", place, size, name="row")
        of_block = builder.op("GatherElements", kept, row, name="of_block", axis=2)
        base = builder.op("Mul", of_block, size, name="base")
        ids = builder.op("Add", base, builder.op("Mod", place, size, name="within"), name="ids")
    owner = node.graph
    assert owner is not None
    owner.insert_before(node, builder.nodes)
    for old, new in zip(node.outputs, (largest, ids), strict=True):
        old.replace_all_uses_with(new, replace_graph_outputs=True)
    owner.remove(node, safe=True)


SPLIT_TOPK: Final = LoweringPass("split_topk", ("canonical",), ("long TopK are split",), _apply)
