"""The graphs of quantized models for TensorRT-RTX, executed by ONNX Runtime: its arithmetic in float16 is emulated."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from specc.errors import SpeccBug
from specc.graph.decoder import target_graph
from specc.graph.drafters.unrolled import unrolled_graph
from specc.lower.dequantize_weights import DEQUANTIZE_WEIGHTS
from specc.lower.lowered_from_plan import lowered_from_plan
from specc.lower.passes import apply_passes
from specc.lower.weight_parts import parts_of_weight
from specc.plan.plan import WeightRow
from specc.progress import silent
from specc.quantize.layouts.onnx_packed import codes_from_onnx_packed
from specc.quantize.quantized_from_float import quantized_from_float
from tests.quantized import rtx_rows
from tests.tensorrt_double import rtx_plan, rtx_profiles
from tests.tiny_engines import facts_from_sizes, plan_from_facts, source_from_sizes, tiny_graph_plan
from tests.tiny_models import TinyLlama

SIZES = TinyLlama(num_hidden_layers=1, intermediate_size=128)
GRAPH = {"compute_dtype": "f16", "capacity": 64, "capacity_buckets": (64,), "acceptance": "greedy"}
# float16: half a unit in the last place of logits up to 16, through one layer; 8 bits: rounded before 7 products.
ATOL = {"float": 0.06, "rounded": 1.5}


def logits(folder: Path, rows: tuple[WeightRow, ...], dequantized_as: tuple[WeightRow, ...] = ()) -> np.ndarray:
    source = source_from_sizes(folder / "source", SIZES, plain=False)
    for name, tensor in source.tensors.items():
        row = tiny_graph_plan(weights=dequantized_as).weight_row(name)
        if row is not None and row.format is not None:
            source.tensors[name] = quantized_from_float(tensor, row.format, "rtn").dequantized()
    plan = rtx_plan(plan_from_facts(source.facts, tiny_graph_plan(weights=rows, **GRAPH)), rtx_profiles(4, 32, 4))
    plan = replace(plan, graph=replace(plan.graph, variants=("main", "logits")))
    (folder / "lowered").mkdir()
    lowered_from_plan(plan, source, folder / "lowered", silent)
    options = onnxruntime.SessionOptions()
    # Optimized, the products would round activations to 8 bits of ONNX Runtime's own accord.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(folder / "lowered" / "target.logits.onnx", options)
    rng = np.random.default_rng(0)
    inputs = {item.name: np.zeros((2, 2, 64, 16), np.float16) for item in session.get_inputs() if "cache" in item.name}
    inputs |= {
        "input_ids": rng.integers(0, 259, (2, 5)),
        "num_tokens": np.array([5, 5]),
        "past_lengths": np.zeros(2, np.int64),
        "logit_rows": np.array([[0, 1, 4], [0, 1, 4]]),
        "num_draft": np.array([0, 0]),
    }
    return session.run(["logits"], inputs)[0]


@pytest.mark.parametrize("scheme", ["w4a16", "w8a16", "fp8a16", "w8a8", "fp8"])
def test_products_are_those_of_the_dequantized_weights(scheme: str, tmp_path: Path) -> None:
    rows = rtx_rows(scheme, 32)
    (tmp_path / "float").mkdir()
    expected = logits(tmp_path / "float", (), dequantized_as=rows)
    found = logits(tmp_path, rows)
    assert np.abs(expected).max() > 3
    kind = "float" if scheme.endswith("a16") else "rounded"
    assert np.abs(found - expected).max() < ATOL[kind]


def test_floats_of_4_bits_have_scales_in_two_levels() -> None:
    weight = (0.003 * np.random.default_rng(1).standard_normal((32, 64))).astype(np.float32)
    (row,) = rtx_rows("nvfp4a16")
    assert row.format is not None
    quantized = quantized_from_float(weight, row.format, "rtn")
    parts = {part.suffix: part for part in parts_of_weight("tensorrt-rtx", (32, 64), row.format)}
    packed = np.frombuffer(parts["codes"].content(quantized), np.uint8)
    codes = codes_from_onnx_packed(packed, (64, 32), "fp4_e2m1").astype(np.float32)  # [K, N]
    scales = np.frombuffer(parts["scales"].content(quantized), onnx.helper.tensor_dtype_to_np_dtype(17))
    whole = np.frombuffer(parts["global_scale"].content(quantized), np.float32)
    assert (parts["codes"].dtype, parts["scales"].dtype, parts["global_scale"].shape) == ("f4e2m1", "f8e4m3", ())
    found = codes * np.repeat(scales.astype(np.float32).reshape(4, 32), 16, axis=0) * np.float32(whole[0])
    np.testing.assert_array_equal(whole[0], quantized.global_scale)  # 4e-6 here: in float16, of 6 bits
    np.testing.assert_allclose(found.T, quantized.dequantized(), rtol=2.0**-22)


def test_zero_points_and_look_ups_are_bugs_here() -> None:
    form = rtx_rows("w4a16")[0].format
    assert form is not None
    with pytest.raises(SpeccBug, match="no layout for uint4"):
        parts_of_weight("tensorrt-rtx", (32, 64), type(form)("uint4", "group", 32, zero_point=True))
    small = replace(form, group_size=32)
    plan = tiny_graph_plan(weights=(WeightRow("model.embed_tokens.weight", "w4a16", small, "rtn"),), **GRAPH)
    with pytest.raises(SpeccBug, match="Gather of the quantized"):
        DEQUANTIZE_WEIGHTS.apply(target_graph(facts_from_sizes(SIZES), plan, "main"), plan)


def test_one_chain_of_nodes_serves_all_products_of_an_unrolled_draft() -> None:
    plan = tiny_graph_plan(
        weights=rtx_rows("w8a8"), role="draft", max_logit_rows=1, variants=("main", "unrolled"), steps=2, **GRAPH
    )
    model = unrolled_graph(facts_from_sizes(SIZES), plan)
    apply_passes(model, plan, "tensorrt-rtx")
    kinds = [node.op_type for node in model.graph]
    assert kinds.count("QuantizeLinear") == 2 * 4  # q, k and v share theirs, as do gate and up
    assert kinds.count("DequantizeLinear") == 7 + kinds.count("QuantizeLinear")
