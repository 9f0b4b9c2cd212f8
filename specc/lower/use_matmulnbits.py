"""Pass: multiply by quantized matrices with ONNX Runtime's own operator.

    MatMul(x, Transpose(W))  ->  MatMulNBits(x, codes, scales[, zero points])

The operator rounds each block of a row of x to 8 bits with a scale of its own (accuracy_level 4): rows do not share a
scale. Without that, products of 8-bit weights take 13 times as long on CPUs.
"""

from __future__ import annotations

from typing import Final

import onnx_ir as ir

from specc.catalog.weight_formats import ELEMENT_BITS, WeightFormat
from specc.errors import SpeccBug
from specc.lower.bind_weights import shape_of
from specc.lower.joined_names import member_names
from specc.lower.lowering_pass import LoweringPass
from specc.lower.operators import MICROSOFT, ONNXRUNTIME
from specc.lower.part_values import parts_in_model
from specc.lower.take_place import take_place
from specc.plan.plan import GraphPlan

INT8_BLOCKS: Final = 4
"""accuracy_level: blocks of activations are rounded to int8, products are summed as integers."""


def _apply(model: ir.Model, graph: GraphPlan) -> None:
    for name, value in list(model.graph.initializers.items()):
        row = graph.weight_row(member_names(name)[0])
        if row is None or row.format is None:
            continue
        out, into = shape_of(value)
        parts = parts_in_model(model, ONNXRUNTIME, value, row)
        for user, _ in list(value.uses()):
            if user.op_type == "Transpose":
                _multiply(user, parts, row.format, (out, into))
            else:
                raise SpeccBug(f"{user.name}: {user.op_type} of the quantized {name}")
        del model.graph.initializers[name]
        model.graph.opset_imports[MICROSOFT] = 1


def _multiply(transpose: ir.Node, parts: dict[str, ir.Value], form: WeightFormat, shape: tuple[int, int]) -> None:
    for product, _ in list(transpose.outputs[0].uses()):
        attributes = {
            "N": shape[0],
            "K": shape[1],
            "bits": ELEMENT_BITS[form.element],
            "block_size": form.group_size or shape[1],
            "accuracy_level": INT8_BLOCKS,
        }
        node = ir.node(
            "MatMulNBits",
            [product.inputs[0], *parts.values()],
            attributes,
            domain=MICROSOFT,
            name=product.name,
        )
        _replace(product, [node], node.outputs[0])
    _owner(transpose).remove(transpose, safe=True)


def _replace(old: ir.Node, nodes: list[ir.Node], new: ir.Value) -> None:
    owner = _owner(old)
    owner.insert_before(old, nodes)
    take_place(new, old.outputs[0])
    owner.remove(old, safe=True)


def _owner(node: ir.Node) -> ir.Graph:
    """Return the graph that holds a node: the model's, or the body of a conditional."""
    if not isinstance(node.graph, ir.Graph):
        raise SpeccBug(f"{node.name} stands in no graph")
    return node.graph


USE_MATMULNBITS: Final = LoweringPass("use_matmulnbits", ("rows of codes",), ("quantized products",), _apply)
