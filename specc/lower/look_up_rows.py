"""Pass: look up rows of a quantized embedding in its codes, on ONNX Runtime.

    Gather(W, ids)  ->  (Gather(codes, ids) - offset) * Gather(scales, ids)

A tied embedding is stored once, as its product wants it: groups of a row side by side, [N, K / g, g bits / 8], or one
scale a channel with the codes of a token in a column, [K, N].
"""

from __future__ import annotations

from typing import Final

import onnx_ir as ir

from specc.catalog.weight_formats import ELEMENT_BITS, WeightFormat
from specc.errors import SpeccBug
from specc.graph.builder import Builder
from specc.lower.joined_names import member_names
from specc.lower.lowering_pass import LoweringPass
from specc.lower.operators import ONNXRUNTIME
from specc.lower.part_values import parts_in_model
from specc.lower.take_place import take_place
from specc.lower.weight_parts import CODES, SCALES
from specc.plan.plan import GraphPlan


def _apply(model: ir.Model, graph: GraphPlan) -> None:
    for name, weight in list(model.graph.initializers.items()):
        row = graph.weight_row(member_names(name)[0])
        if row is None or row.format is None:
            continue
        for user, _ in list(weight.uses()):
            if user.op_type == "Gather":
                _look_up(user, parts_in_model(model, ONNXRUNTIME, weight, row), row.format)
        if not weight.uses():
            del model.graph.initializers[name]


def _look_up(gather: ir.Node, parts: dict[str, ir.Value], form: WeightFormat) -> None:
    owner, ids = gather.graph, gather.inputs[1]
    if not isinstance(owner, ir.Graph) or ids is None:
        raise SpeccBug(f"{gather.name} stands in no graph, or looks up nothing")
    builder = Builder()
    with builder.scope(str(gather.name)):
        if form.group_size is None:
            row = _row_of_channels(builder, parts, ids)  # [B, S, K]
        else:
            row = _row_of_groups(builder, parts, ids, ELEMENT_BITS[form.element])
    owner.insert_before(gather, builder.nodes)
    take_place(row, gather.outputs[0])
    owner.remove(gather, safe=True)


def _row_of_channels(builder: Builder, parts: dict[str, ir.Value], ids: ir.Value) -> ir.Value:
    columns = builder.op("Gather", parts[CODES], ids, name="columns", axis=1)  # [K, B, S]
    codes = builder.op("Transpose", columns, name="codes", perm=[1, 2, 0])
    counted = builder.op("Cast", codes, name="counted", to=ir.DataType.FLOAT)
    scale = builder.op("Unsqueeze", builder.op("Gather", parts[SCALES], ids), builder.i64(-1), name="scale")
    return builder.op("Mul", counted, scale, name="row")


def _row_of_groups(builder: Builder, parts: dict[str, ir.Value], ids: ir.Value, bits: int) -> ir.Value:
    packed = builder.op("Cast", builder.op("Gather", parts[CODES], ids), name="packed", to=ir.DataType.FLOAT)
    counted = packed if bits == 8 else _nibbles(builder, packed)  # [B, S, K/g, g]
    centred = builder.op("Sub", counted, builder.f32(float(1 << (bits - 1))), name="centred")
    scale = builder.op("Unsqueeze", builder.op("Gather", parts[SCALES], ids), builder.i64(-1), name="scale")
    values = builder.op("Mul", centred, scale, name="values")
    return builder.op("Reshape", values, builder.i64(0, 0, -1), name="row")


def _nibbles(builder: Builder, packed: ir.Value) -> ir.Value:
    """Return the two halves of bytes [.., g/2], low ones first, as [.., g]: exact in float32."""
    high = builder.op("Floor", builder.op("Mul", packed, builder.f32(1 / 16)), name="high")
    low = builder.op("Sub", packed, builder.op("Mul", high, builder.f32(16.0)), name="low")
    last = builder.i64(-1)
    pair = [builder.op("Unsqueeze", half, last, name="half") for half in (low, high)]
    both = builder.op("Concat", *pair, name="halves", axis=-1)  # [B, S, K/g, g/2, 2]
    return builder.op("Reshape", both, builder.i64(0, 0, 0, -1), name="nibbles")


LOOK_UP_ROWS: Final = LoweringPass(
    "look_up_rows", ("one product for matrices of one input",), ("rows of codes",), _apply
)
