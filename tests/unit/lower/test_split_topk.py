from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specc.graph.builder import DOMAIN, IR_VERSION, Builder, declared
from specc.lower.split_topk import SPLIT_TOPK
from tests.tiny_engines import tiny_graph_plan


def topk_model(width: int, count: int) -> ir.Model:
    inner = Builder()
    x = declared("x", "f32", ("B", "R", width))
    outputs = inner.ops("TopK", x, inner.i64(count), outputs=("values", "ids"), axis=-1)
    function = inner.function("Top", (x,), outputs)
    builder = Builder()
    given_x = declared("x", "f32", ("B", "R", width))
    values, ids = builder.ops("Top", given_x, outputs=("values", "ids"), domain=DOMAIN)
    values.type, ids.type = ir.TensorType(ir.DataType.FLOAT), ir.TensorType(ir.DataType.INT64)
    return ir.Model(builder.graph("top", [given_x], [values, ids]), ir_version=IR_VERSION, functions=[function])


def session_of(model: ir.Model) -> Any:
    return onnxruntime.InferenceSession(ir.to_proto(model).SerializeToString())


def split_session(width: int, count: int) -> Any:
    model = topk_model(width, count)
    SPLIT_TOPK.apply(model, tiny_graph_plan(candidates=count))
    (function,) = model.functions.values()
    assert [node.op_type for node in function].count("TopK") == 3
    return session_of(model)


SHAPES = ((1600, 100), (1601, 7), (999, 40))
SESSIONS = {shape: split_session(*shape) for shape in SHAPES}


@settings(max_examples=80, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), levels=st.sampled_from([1, 2, 3, 17, 1000]), shape=st.sampled_from(SHAPES))
def test_values_and_ids_are_those_of_a_stable_sort(seed: int, levels: int, shape: tuple[int, int]) -> None:
    width, count = shape
    rng = np.random.default_rng(seed)
    x = rng.integers(0, levels, (2, 2, width)).astype(np.float32)
    x[rng.random(x.shape) < 0.3] = -np.inf
    values, ids = SESSIONS[shape].run(None, {"x": x})
    order = np.argsort(-x, axis=-1, kind="stable")[..., :count]
    np.testing.assert_array_equal(values, np.take_along_axis(x, order, axis=-1))
    np.testing.assert_array_equal(ids, order)


@pytest.mark.parametrize(("width", "count"), [(100, 100), (1000, 64)])
def test_a_short_axis_is_left_alone(width: int, count: int) -> None:
    model = topk_model(width, count)
    before = ir.to_proto(model).SerializeToString()
    SPLIT_TOPK.apply(model, tiny_graph_plan(candidates=count))
    assert ir.to_proto(model).SerializeToString() == before
