"""Pass: turn codes into floats where TensorRT expects it, before the product; its kernels take both nodes together.

    MatMul(x, Transpose(W))  ->  MatMul(x, DequantizeLinear(codes, scales))

Codes are stored [K, N]: a transposed tensor of 4 bits would not be taken for a quantized weight. Floats of 4 bits have
scales of 8 bits, which are dequantized first, by the float32 that the published format has: that of a matrix of small
weights would lose bits in float16, which ends at 6e-5 in normal numbers.
"""

from __future__ import annotations

from typing import Final

import onnx_ir as ir

from specc.catalog.weight_formats import WeightFormat
from specc.errors import SpeccBug
from specc.graph.builder import DATA_TYPES, Builder
from specc.lower.bind_weights import shape_of
from specc.lower.lowering_pass import LoweringPass
from specc.lower.operators import RTX
from specc.lower.part_values import values_of_parts
from specc.lower.weight_parts import CODES, GLOBAL_SCALE, SCALES
from specc.plan.plan import GraphPlan


def _apply(model: ir.Model, graph: GraphPlan) -> None:
    for name, value in list(model.graph.initializers.items()):
        row = graph.weight_row(name)
        if row is None or row.format is None:
            continue
        out, into = shape_of(value)
        parts = values_of_parts(RTX, value, row)
        builder = Builder()
        with builder.scope(name):
            dequantized = _dequantized(builder, parts, row.format, DATA_TYPES[graph.compute_dtype])
        dequantized.type, dequantized.shape = ir.TensorType(DATA_TYPES[graph.compute_dtype]), ir.Shape((into, out))
        model.graph.insert_before(model.graph[0], builder.nodes)
        for user, _ in list(value.uses()):
            if user.op_type != "Transpose":
                raise SpeccBug(f"{user.name}: {user.op_type} of the quantized {name}")
            user.outputs[0].replace_all_uses_with(dequantized)
            model.graph.remove(user, safe=True)
        del model.graph.initializers[name]
        model.graph.initializers.update({str(part.name): part for part in parts.values()})


def _dequantized(builder: Builder, parts: dict[str, ir.Value], form: WeightFormat, dtype: ir.DataType) -> ir.Value:
    """Return the matrix [K, N] as floats of a dtype."""
    codes, scales = parts[CODES], parts[SCALES]
    if form.two_level:
        scales = builder.op("DequantizeLinear", scales, parts[GLOBAL_SCALE], name="scales.dequantized")
        scales = builder.op("Cast", scales, name="scales.cast", to=dtype)
    if form.group_size is not None:
        return builder.op("DequantizeLinear", codes, scales, name="dequantized", axis=0, block_size=form.group_size)
    return builder.op("DequantizeLinear", codes, scales, name="dequantized", axis=1)


DEQUANTIZE_WEIGHTS: Final = LoweringPass("dequantize_weights", ("activations are rounded",), ("no codes",), _apply)
