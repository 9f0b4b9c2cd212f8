"""Products of integers on ONNX Runtime: sums are exact, and a row is the same bits in every call."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest

from specc.errors import SpeccBug
from specc.graph.builder import IR_VERSION, Builder, declared
from specc.lower.multiply_integers import MULTIPLY_INTEGERS
from specc.plan.plan import WeightRow
from specc.plan.weights import LAYERS
from tests.quantized import INT7, integer_rows, logits_of, lowered
from tests.tiny_engines import tiny_graph_plan
from tests.tiny_models import TinyLlama

ROW = WeightRow("*_proj.weight", "w8a8", INT7, "rtn", "int8")
N, K = 72, 576
# The largest difference that rounding activations and weights made, logits up to 30: twice what was measured.
ROUNDED_ATOL = 0.5


def session_of(codes: np.ndarray, scales: np.ndarray) -> onnxruntime.InferenceSession:
    """Return y = x W^T of weights [N, K] as the pass makes it, with two threads."""
    builder = Builder()
    x, weight = declared("x", "f32", ("B", "S", K)), declared("w_proj.weight", "f32", (N, K))
    y = builder.op("MatMul", x, builder.op("Transpose", weight, perm=[1, 0]), name="y")
    y.type, y.shape = ir.TensorType(ir.DataType.FLOAT), ir.Shape(("B", "S", N))
    graph = builder.graph("product", (x,), (y,))
    graph.initializers["w_proj.weight"] = weight
    model = ir.Model(graph, ir_version=IR_VERSION)
    MULTIPLY_INTEGERS.apply(model, tiny_graph_plan(weights=(ROW,)))
    assert [node.op_type for node in graph].count("Constant") == 4
    assert set(graph.initializers) == {"w_proj.weight.codes", "w_proj.weight.scales"}
    graph.initializers["w_proj.weight.codes"].const_value = ir.tensor(np.ascontiguousarray(codes.T))
    graph.initializers["w_proj.weight.scales"].const_value = ir.tensor(scales)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    return onnxruntime.InferenceSession(ir.to_proto(model).SerializeToString(), options)


def exact(x: np.ndarray, codes: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """Return the same in integers of 64 bits and numbers of 64."""
    largest = np.maximum(np.abs(x).max(axis=-1, keepdims=True), np.float32(2.0**-100))
    rounded = np.rint((x / largest) / np.float32(1 / 127)).astype(np.int64)
    return rounded @ codes.T.astype(np.int64) * (scales.astype(np.float64) / 127) * largest


@pytest.mark.parametrize("kind", ["random", "largest", "smallest"])
def test_sums_are_exact_also_where_every_product_is_the_largest(kind: str) -> None:
    rng = np.random.default_rng(0)
    codes = {"random": rng.integers(-64, 64, (N, K)), "largest": np.full((N, K), 63), "smallest": np.full((N, K), -64)}
    x = rng.standard_normal((2, 33, K)).astype(np.float32)
    x[0, :2] = [[1.0], [-1.0]]
    x[1, 5] = 0
    scales = rng.uniform(0.001, 0.01, N).astype(np.float32)
    found = session_of(codes[kind].astype(np.int8), scales).run(None, {"x": x})[0]
    expected = exact(x, codes[kind], scales)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(found[1, 5], 0)


def test_a_row_is_the_same_bits_in_calls_of_any_size_and_beside_any_others() -> None:
    rng = np.random.default_rng(1)
    scales = rng.uniform(0.001, 0.01, N).astype(np.float32)
    session = session_of(rng.integers(-64, 64, (N, K)).astype(np.int8), scales)
    x = rng.standard_normal((1, 130, K)).astype(np.float32) * np.exp(rng.standard_normal((1, 130, 1)) * 4)
    x = x.astype(np.float32)
    alone = np.concatenate([session.run(None, {"x": x[:, i : i + 1]})[0] for i in range(130)], axis=1)
    for rows in (2, 3, 5, 9, 16, 17, 129, 130):
        np.testing.assert_array_equal(session.run(None, {"x": x[:, :rows]})[0], alone[:, :rows])
    other = np.concatenate([x[:, :3], 1e6 * x[:, 3:5]], axis=1)
    np.testing.assert_array_equal(session.run(None, {"x": other})[0][:, :3], alone[:, :3])
    batch = session.run(None, {"x": x.reshape(26, 5, K)})[0]
    np.testing.assert_array_equal(batch.reshape(1, 130, N), alone)


def test_a_model_is_that_of_its_rounded_weights(tmp_path: Path) -> None:
    sizes = TinyLlama()
    rows = integer_rows()
    (tmp_path / "float").mkdir()
    expected = logits_of(lowered(tmp_path / "float", sizes, (), dequantized_as=rows), sizes)
    found = logits_of(lowered(tmp_path, sizes, rows), sizes)
    assert np.abs(found - expected).max() < ROUNDED_ATOL
    assert np.corrcoef(found.ravel(), expected.ravel())[0, 1] > 0.99


def test_constants_stand_in_the_graph_once(tmp_path: Path) -> None:
    model = ir.load(lowered(tmp_path, TinyLlama(num_hidden_layers=3), integer_rows()))
    assert sum(node.op_type == "MatMulIntegerToFloat" for node in model.graph) == 4 * 3 + 1
    tensors = [node.attributes["value"].as_tensor() for node in model.graph if node.op_type == "Constant"]
    shared = [t for t in tensors if t.numpy().dtype == np.uint8 or t.numpy().ravel()[:1] == np.float32(1 / 127)]
    assert len(shared) == 2


def test_activations_of_other_elements_are_a_bug(tmp_path: Path) -> None:
    row = WeightRow(LAYERS, "fp8", INT7, "rtn", "fp8_e4m3")
    with pytest.raises(SpeccBug, match="activations fp8_e4m3"):
        lowered(tmp_path, TinyLlama(), (row,))
