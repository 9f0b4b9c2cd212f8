"""Pass: multiply rows of activations and matrices as integers of 8 bits, on ONNX Runtime.

    MatMul(x, Transpose(W))  ->  MatMulIntegerToFloat(codes of x / m, codes of W) * m    m: largest magnitude of a row

Sums of integers do not depend on their order, and each row has a scale of its own: a row becomes the same bits in every
call, whatever stands beside it and however many rows there are. Activations are unsigned with 128 for 0: that is the
pair of types with fast kernels, products of signed by signed take tens of times as long. On CPUs without VNNI these
kernels add two products in 16 bits, which holds for codes of weights from -64 to 63, and for no more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import onnx_ir as ir

from specc.errors import SpeccBug
from specc.graph.builder import Builder
from specc.lower.joined_names import member_names
from specc.lower.lowering_pass import LoweringPass
from specc.lower.operators import MICROSOFT, ONNXRUNTIME
from specc.lower.part_values import parts_in_model
from specc.lower.take_place import take_place
from specc.lower.weight_parts import CODES, SCALES
from specc.plan.plan import GraphPlan

SMALLEST: Final = 2.0**-100
"""What a row is divided by where all of it is smaller, as a row of zeros."""
REACH: Final = 127.0
ZERO: Final = 128
"""The code of 0.0: codes of activations are 1 to 255."""


def _apply(model: ir.Model, graph: GraphPlan) -> None:
    weights: dict[str, dict[str, ir.Value]] = {}
    rounded: dict[tuple[ir.Graph, ir.Value], tuple[ir.Value, ir.Value]] = {}
    constants: dict[ir.Graph, _Constants] = {}
    for product in list(model.graph.all_nodes()):
        transpose = product.inputs[1].producer() if product.op_type == "MatMul" and product.inputs[1] else None
        weight = transpose.inputs[0] if transpose is not None and transpose.op_type == "Transpose" else None
        row = None if weight is None else graph.weight_row(member_names(str(weight.name))[0])
        owner, x = product.graph, product.inputs[0] if product.inputs else None
        if weight is None or row is None or row.activations is None:
            continue
        if row.activations != "int8" or not isinstance(owner, ir.Graph) or x is None:
            raise SpeccBug(f"{product.name}: activations {row.activations} of {weight.name}")
        name = str(weight.name)
        if name not in weights:
            weights[name] = parts_in_model(model, ONNXRUNTIME, weight, row)
            model.graph.opset_imports[MICROSOFT] = 1
        if owner not in constants:
            constants[owner] = _constants(owner)
        if (owner, x) not in rounded:
            rounded[owner, x] = _rounded(owner, product, x, constants[owner])
        _multiply(owner, product, rounded[owner, x], weights[name], constants[owner])
        if transpose is not None and not transpose.outputs[0].uses() and isinstance(transpose.graph, ir.Graph):
            transpose.graph.remove(transpose, safe=True)
        if not weight.uses():
            del model.graph.initializers[name]


@dataclass(frozen=True)
class _Constants:
    """What all products of a graph share: the axis of rows, SMALLEST, the width of a step and the code of 0.0."""

    axis: ir.Value
    smallest: ir.Value
    step: ir.Value
    zero: ir.Value


def _constants(owner: ir.Graph) -> _Constants:
    builder = Builder()
    with builder.scope(f"{owner.name}.integers"):
        zero = builder.constant(np.array(ZERO, np.uint8), "zero")
        made = _Constants(builder.i64(-1), builder.f32(SMALLEST), builder.f32(1.0 / REACH), zero)
    owner.insert_before(owner[0], builder.nodes)
    return made


def _rounded(owner: ir.Graph, before: ir.Node, x: ir.Value, constants: _Constants) -> tuple[ir.Value, ir.Value]:
    """Return the codes of rows [.., K], uint8, and what the rows were divided by, float32 [.., 1]."""
    builder = Builder()
    with builder.scope(f"{x.name}.rounded"):
        magnitude = builder.op("Abs", x, name="magnitude")
        largest = builder.op("ReduceMax", magnitude, constants.axis, name="largest", keepdims=1)
        divisor = builder.op("Max", largest, constants.smallest, name="divisor")  # [.., 1]
        unit = builder.op("Div", x, divisor, name="unit")
        codes = builder.op("QuantizeLinear", unit, constants.step, constants.zero, name="codes")
    owner.insert_before(before, builder.nodes)
    return codes, divisor


def _multiply(
    owner: ir.Graph,
    product: ir.Node,
    rounded: tuple[ir.Value, ir.Value],
    weight: dict[str, ir.Value],
    constants: _Constants,
) -> None:
    codes, divisor = rounded
    builder = Builder()
    with builder.scope(str(product.name)):
        inputs = codes, weight[CODES], constants.step, weight[SCALES], constants.zero
        unit = builder.op("MatMulIntegerToFloat", *inputs, name="integers", domain=MICROSOFT)
        scaled = builder.op("Mul", unit, divisor, name="scaled")
    owner.insert_before(product, builder.nodes)
    take_place(scaled, product.outputs[0])
    owner.remove(product, safe=True)


MULTIPLY_INTEGERS: Final = LoweringPass("multiply_integers", ("rows of codes",), ("integer products",), _apply)
