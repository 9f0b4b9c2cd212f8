"""Picks by TopK are the picks of the canonical arithmetic."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specc.graph.builder import IR_VERSION, Builder, declared
from specc.graph.picks import greedy_picks, lowest_id_at_maximum
from specc.lower.pick_by_topk import PICK_BY_TOPK
from tests.quantized import lowered
from tests.tiny_engines import tiny_graph_plan
from tests.tiny_models import TinyLlama

WIDTHS = (1, 2, 33, 1000)


def greedy_model(width: int) -> ir.Model:
    builder = Builder()
    logits = declared("logits", "f32", ("B", "R", width))
    picks = greedy_picks(builder, logits, width)
    picks.type = ir.TensorType(ir.DataType.INT64)
    return ir.Model(builder.graph("greedy", [logits], [picks]), ir_version=IR_VERSION)


def session_of(model: ir.Model) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    return onnxruntime.InferenceSession(ir.to_proto(model).SerializeToString(), options)


def by_topk(width: int) -> ir.Model:
    model = greedy_model(width)
    PICK_BY_TOPK.apply(model, tiny_graph_plan())
    assert sorted(node.op_type for node in model.graph) == ["Constant", "Constant", "Squeeze", "TopK"]
    return model


SESSIONS = {width: (session_of(greedy_model(width)), session_of(by_topk(width))) for width in WIDTHS}


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), levels=st.sampled_from([1, 2, 3, 50]), width=st.sampled_from(WIDTHS))
def test_the_lowest_id_of_the_largest_is_picked(seed: int, levels: int, width: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.integers(-levels, levels, (3, 5, width)).astype(np.float32) * np.float32(0.1)
    x[rng.random(x.shape) < 0.3] = -np.inf
    x[0, 0, rng.integers(width)] = np.inf
    x[1, 1] = -np.inf
    canonical, picked = (session.run(None, {"logits": x})[0] for session in SESSIONS[width])
    np.testing.assert_array_equal(picked, x.argmax(axis=-1))
    np.testing.assert_array_equal(picked, canonical)


def test_of_a_row_without_numbers_some_id_of_the_vocabulary_is_picked() -> None:
    x = np.full((2, 2, 1000), np.nan, np.float32)
    x[1, 1, 500:] = 1.0
    (picked,) = SESSIONS[1000][1].run(None, {"logits": x})
    assert ((picked >= 0) & (picked < 1000)).all()


def test_the_lowest_of_candidates_that_have_ids_of_their_own_stays_arithmetic() -> None:
    builder = Builder()
    values, ids = declared("values", "f32", ("B", "R", 8)), declared("ids", "i64", ("B", "R", 8))
    lowest = lowest_id_at_maximum(builder, values, ids, builder.i64_scalar(99))
    cast = builder.op("Cast", lowest, name="cast", to=ir.DataType.INT32)
    cast.type = ir.TensorType(ir.DataType.INT32)
    model = ir.Model(builder.graph("candidates", [values, ids], [cast]), ir_version=IR_VERSION)
    before = ir.to_proto(model).SerializeToString()
    PICK_BY_TOPK.apply(model, tiny_graph_plan())
    assert ir.to_proto(model).SerializeToString() == before


@pytest.mark.parametrize("variant", ["target.onnx", "target.logits.onnx"])
def test_engines_pick_by_topk(tmp_path: Path, variant: str) -> None:
    model = onnx.load(lowered(tmp_path, TinyLlama(), ()).with_name(variant), load_external_data=False)
    nodes = [node.op_type for graph in (model.graph, *model.functions) for node in graph.node]
    assert nodes.count("TopK") == 1
    assert nodes.count("ReduceMin") == 0
