"""Pass: pick the lowest id of the largest logit with TopK, whose specification puts the lower index first on ties.

    Cast(ReduceMin(Where(Equal(x, ReduceMax(x)), Range, last)))  ->  Squeeze(TopK(x, 1))

The canonical form is arithmetic, for back ends that state no order. ONNX Runtime's operator reads the logits once,
where the arithmetic writes three arrays of their size: of 16 rows of 49152 logits it takes a quarter of the time. Of a
row that has no largest number either form gives some id of the vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from specc.graph.builder import Builder
from specc.lower.lowering_pass import LoweringPass
from specc.lower.take_place import take_place
from specc.plan.plan import GraphPlan


def _apply(model: ir.Model, graph: GraphPlan) -> None:  # noqa: ARG001 - the form of a pass
    for node in _nodes(model):
        values = _ranked(node)
        if values is not None and node.graph is not None:
            _replace(node, values)
    RemoveUnusedNodesPass()(model)


def _nodes(model: ir.Model) -> Iterator[ir.Node]:
    yield from list(model.graph.all_nodes())
    for function in model.functions.values():
        yield from list(function.all_nodes())


def _ranked(cast: ir.Node) -> ir.Value | None:
    """Return the values whose largest element's lowest index a Cast gives; None where it gives something else."""
    lowest = _made_by("Cast", cast.outputs[0]) and _made_by("ReduceMin", cast.inputs[0])
    chosen = lowest and _made_by("Where", lowest.inputs[0])
    equal = chosen and _made_by("Equal", chosen.inputs[0])
    if not chosen or not equal or not _made_by("Range", chosen.inputs[1]):
        return None
    largest = _made_by("ReduceMax", equal.inputs[1])
    return equal.inputs[0] if largest and largest.inputs[0] is equal.inputs[0] else None


def _made_by(operator: str, value: ir.Value | None) -> ir.Node | None:
    node = None if value is None else value.producer()
    return node if node is not None and (node.domain, node.op_type) == ("", operator) else None


def _replace(cast: ir.Node, values: ir.Value) -> None:
    builder = Builder()
    with builder.scope(str(cast.name)):
        _, index = builder.ops("TopK", values, builder.i64(1), outputs=("largest", "index"), axis=-1)  # [B, R, 1]
        lowest = builder.op("Squeeze", index, builder.i64(-1), name="lowest")
    assert cast.graph is not None
    cast.graph.insert_before(cast, builder.nodes)
    take_place(lowest, cast.outputs[0])
    cast.graph.remove(cast, safe=True)


PICK_BY_TOPK: Final = LoweringPass("pick_by_topk", ("long TopK are split",), ("picks are of TopK",), _apply)
