"""Pass: round the input of products as the scheme says, each row of it by a scale of its own.

    MatMul(x, W)  ->  MatMul(rounded(x / m), W) * m        m: the largest magnitude of each row of x

With a scale that rows share, a rejected draft would change what an accepted token becomes; and one that was fixed
beforehand needs texts to calibrate it with. After the division, one fixed scale serves all rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import ml_dtypes
import numpy as np
import onnx_ir as ir

from specc.catalog.schemes import ActivationElement
from specc.errors import SpeccBug
from specc.graph.builder import DATA_TYPES, Builder
from specc.lower.lowering_pass import LoweringPass
from specc.lower.operators import TRT
from specc.plan.plan import GraphPlan

ROUNDED: Final = "activations are rounded"
SMALLEST: Final = 2.0**-14
"""What a row is divided by where all of it is smaller: the least normal number of float16."""
FP4_BLOCK: Final = 16
REACH: Final[dict[ActivationElement, float]] = {"int8": 127.0, "fp8_e4m3": 448.0, "fp4_e2m1": 6.0 * 448.0}
"""What the largest magnitude of a row becomes, of 4-bit floats with the scale of its block, which is 8 bits wide."""
FP8_SCALES: Final = 17
"""TensorRT's number for scales of float8_e4m3."""


@dataclass(frozen=True)
class _Rounded:
    """Rows [.., K] of magnitude 1 at most, rounded, and what they were divided by, [.., 1]."""

    rows: ir.Value
    largest: ir.Value


def _apply(model: ir.Model, graph: GraphPlan) -> None:
    done: dict[tuple[ir.Value, ActivationElement], _Rounded] = {}
    for name, value in list(model.graph.initializers.items()):
        row = graph.weight_row(name)
        if row is None or row.activations is None:
            continue
        for transpose, _ in list(value.uses()):
            for product, _ in list(transpose.outputs[0].uses()):
                x = product.inputs[0]
                if transpose.op_type != "Transpose" or product.op_type != "MatMul" or x is None:
                    raise SpeccBug(f"{product.name}: {product.op_type} of {name}")
                key = x, row.activations
                if key not in done:
                    done[key] = _rounded(model, product, x, row.activations, graph)
                _multiplied(model.graph, product, done[key])


def _rounded(model: ir.Model, before: ir.Node, x: ir.Value, element: ActivationElement, graph: GraphPlan) -> _Rounded:
    dtype = DATA_TYPES[graph.compute_dtype].numpy()
    builder = Builder()
    with builder.scope(f"{x.name}.rounded"):

        def scalar(value: float) -> ir.Value:
            return builder.constant(np.array(value, dtype=dtype), "scalar")

        magnitude = builder.op("Max", x, builder.op("Neg", x, name="negative"), name="magnitude")
        largest = builder.op("ReduceMax", magnitude, builder.i64(-1), name="largest", keepdims=1)
        largest = builder.op("Max", largest, scalar(SMALLEST), name="divisor")  # [.., 1]
        unit = builder.op("Div", x, largest, name="unit")
        scale = scalar(1.0 / REACH[element])
        if element == "fp4_e2m1":
            rows = _fp4(builder, unit, scale)
            model.graph.opset_imports[TRT] = 1
        else:
            zero = np.zeros((), dtype=np.int8 if element == "int8" else ml_dtypes.float8_e4m3fn)
            codes = builder.op("QuantizeLinear", unit, scale, builder.constant(zero, "zero"), name="codes")
            rows = builder.op("DequantizeLinear", codes, scale, name="rows")
    if before.graph is None:
        raise SpeccBug(f"{before.name} is in no graph")
    model.graph.insert_before(before, builder.nodes)
    return _Rounded(rows, largest)


def _fp4(builder: Builder, unit: ir.Value, scale: ir.Value) -> ir.Value:
    """Return rows rounded to 4-bit floats in blocks of 16, whose scales are found while they run."""
    codes, scales = builder.ops(
        "TRT_FP4DynamicQuantize",
        unit,
        scale,
        outputs=("codes", "scales"),
        domain=TRT,
        axis=-1,
        block_size=FP4_BLOCK,
        scale_type=FP8_SCALES,
    )
    blocks = builder.op("DequantizeLinear", scales, scale, name="block_scales")
    return builder.op("DequantizeLinear", codes, blocks, name="rows", axis=-1, block_size=FP4_BLOCK)


def _multiplied(owner: ir.Graph, product: ir.Node, rounded: _Rounded) -> None:
    product.replace_input_with(0, rounded.rows)
    result = product.outputs[0]
    builder = Builder()
    users = list(result.uses())
    scaled = builder.op("Mul", result, rounded.largest, name=f"{result.name}.scaled")
    for user, index in users:
        user.replace_input_with(index, scaled)
    owner.insert_after(product, builder.nodes)


ROUND_ACTIVATIONS: Final = LoweringPass("round_activations", ("canonical",), (ROUNDED,), _apply)
