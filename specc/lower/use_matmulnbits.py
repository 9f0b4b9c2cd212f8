"""Pass: multiply by quantized matrices with ONNX Runtime's own operator, and look up rows of a quantized embedding.

    MatMul(x, Transpose(W))  ->  MatMulNBits(x, codes, scales[, zero points])
    Gather(W, ids)           ->  (Gather(codes, ids) - offset) * Gather(scales, ids)

The operator rounds each block of a row of x to 8 bits with a scale of its own (accuracy_level 4): rows do not share a
scale. Without that, products of 8-bit weights take 13 times as long on CPUs. One file holds a tied embedding's codes.
"""

from __future__ import annotations

from typing import Final

import onnx_ir as ir

from specc.catalog.weight_formats import ELEMENT_BITS, WeightFormat
from specc.errors import SpeccBug
from specc.graph.builder import Builder
from specc.lower.bind_weights import shape_of
from specc.lower.joined_names import member_names
from specc.lower.lowering_pass import LoweringPass
from specc.lower.operators import MICROSOFT, ONNXRUNTIME
from specc.lower.part_values import values_of_parts
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
        parts = values_of_parts(ONNXRUNTIME, value, row)
        for user, _ in list(value.uses()):
            if user.op_type == "Transpose":
                _multiply(user, parts, row.format, (out, into))
            elif user.op_type == "Gather":
                _look_up(user, parts, row.format)
            else:
                raise SpeccBug(f"{user.name}: {user.op_type} of the quantized {name}")
        del model.graph.initializers[name]
        model.graph.initializers.update({str(part.name): part for part in parts.values()})
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


def _look_up(gather: ir.Node, parts: dict[str, ir.Value], form: WeightFormat) -> None:
    codes, scales = parts.values()
    ids, bits = gather.inputs[1], ELEMENT_BITS[form.element]
    builder = Builder()
    with builder.scope(str(gather.name)):
        packed = builder.op("Cast", builder.op("Gather", codes, ids), name="packed", to=ir.DataType.FLOAT)
        counted = packed if bits == 8 else _nibbles(builder, packed)  # [B, S, K/g, g]
        centred = builder.op("Sub", counted, builder.f32(float(1 << (bits - 1))), name="centred")
        scale = builder.op("Unsqueeze", builder.op("Gather", scales, ids), builder.i64(-1), name="scale")
        values = builder.op("Mul", centred, scale, name="values")
        row = builder.op("Reshape", values, builder.i64(0, 0, -1), name="row")  # [B, S, K]
    _replace(gather, builder.nodes, row)


def _nibbles(builder: Builder, packed: ir.Value) -> ir.Value:
    """Return the two halves of bytes [.., g/2], low ones first, as [.., g]: exact in float32."""
    high = builder.op("Floor", builder.op("Mul", packed, builder.f32(1 / 16)), name="high")
    low = builder.op("Sub", packed, builder.op("Mul", high, builder.f32(16.0)), name="low")
    last = builder.i64(-1)
    pair = [builder.op("Unsqueeze", half, last, name="half") for half in (low, high)]
    both = builder.op("Concat", *pair, name="halves", axis=-1)  # [B, S, K/g, g/2, 2]
    return builder.op("Reshape", both, builder.i64(0, 0, 0, -1), name="nibbles")


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


USE_MATMULNBITS: Final = LoweringPass(
    "use_matmulnbits", ("one product for matrices of one input",), ("quantized products",), _apply
)
