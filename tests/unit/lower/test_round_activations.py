"""Activations are rounded row by row: no row depends on another, and rows of any magnitude keep their precision."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest

from specc.catalog.schemes import ActivationElement
from specc.graph.builder import IR_VERSION, Builder, declared
from specc.lower.round_activations import ROUND_ACTIVATIONS
from specc.plan.plan import WeightRow
from tests.quantized import INT8
from tests.tiny_engines import tiny_graph_plan

WEIGHT = np.random.default_rng(0).standard_normal((24, 32)).astype(np.float32)


def product(element: ActivationElement, x: np.ndarray) -> np.ndarray:
    """Return x [B, S, K] times the weight's transpose after the pass."""
    builder = Builder()
    value = declared("x", "f32", ("B", "S", 32))
    weight = builder.table("w_proj.weight", WEIGHT, "f32")
    y = builder.op("MatMul", value, builder.op("Transpose", weight, perm=[1, 0]), name="y")
    y.type, y.shape = ir.TensorType(ir.DataType.FLOAT), ir.Shape(("B", "S", 24))
    out = builder.op("Identity", y, name="out")
    out.type, out.shape = y.type, y.shape
    graph = builder.graph("product", (value,), (out,))
    graph.initializers.update(builder.initializers)
    model = ir.Model(graph, ir_version=IR_VERSION)
    ROUND_ACTIVATIONS.apply(model, tiny_graph_plan(weights=(WeightRow("w_*", "w8a8", INT8, "rtn", element),)))
    session = onnxruntime.InferenceSession(ir.to_proto(model).SerializeToString())
    return session.run(None, {"x": x})[0]


@pytest.mark.parametrize(("element", "steps"), [("int8", 127), ("fp8_e4m3", 16)])
def test_a_row_keeps_its_precision_whatever_stands_beside_it(element: ActivationElement, steps: int) -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((2, 3, 32)).astype(np.float32) * np.float32([[[1e3], [1], [1e-2]]])
    exact = x @ WEIGHT.T
    found = product(element, x)
    rows = np.abs(x).max(axis=-1, keepdims=True)
    # Half a step of each of 32 activations, times weights of unit variance: five deviations.
    assert (np.abs(found - exact) / rows).max() < 5 * np.sqrt(32) * 0.5 / steps / np.sqrt(3)
    x[0, 0] = 0
    changed = product(element, x)
    np.testing.assert_array_equal(changed[0, 1:], found[0, 1:])
    np.testing.assert_array_equal(changed[1], found[1])
    np.testing.assert_array_equal(changed[0, 0], np.zeros(24))
