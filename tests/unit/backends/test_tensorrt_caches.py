"""Caches that TensorRT-RTX does not update in place."""

from __future__ import annotations

import pytest
import tensorrt_rtx as trt
from onnx import TensorProto, helper


@pytest.mark.parametrize(("dtype", "word"), [(TensorProto.FLOAT8E4M3FN, "FP8"), (TensorProto.INT8, "Int8")])
def test_the_builder_updates_no_caches_of_8_bits(dtype: int, word: str) -> None:
    """Why planning refuses `kv_cache: fp8` and `int8` there: an update in place takes floats of 16 or 32 bits."""
    shape = ["B", 2, 64, 64]
    given = [("cache", dtype, shape), ("rows", dtype, ["B", 2, 5, 64]), ("at", TensorProto.INT64, ["B"])]
    update = helper.make_node("TensorScatter", ["cache", "rows", "at"], ["updated"], axis=2, mode="linear")
    graph = helper.make_graph(
        [update],
        "update",
        [helper.make_tensor_value_info(*row) for row in given],
        [helper.make_tensor_value_info("updated", dtype, shape)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=11)
    logger = trt.Logger(trt.Logger.INTERNAL_ERROR)
    network = trt.Builder(logger).create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    parser = trt.OnnxParser(network, logger)
    assert not parser.parse(model.SerializeToString())
    assert f"cache has type {word} but must have type Float, Half, or BFloat16" in parser.get_error(0).desc()
