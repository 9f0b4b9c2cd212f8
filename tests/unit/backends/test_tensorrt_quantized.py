"""Engines of quantized models: every scheme builds from its first SM on, and no earlier, as the catalog says."""

from __future__ import annotations

from pathlib import Path

import pytest
import tensorrt_rtx as trt
from onnx import TensorProto, helper

from specc.backends.tensorrt import TensorRtBackend
from specc.backends.tensorrt_file import attention_kernels
from specc.catalog.capabilities import BACKENDS
from specc.errors import SpeccError
from specc.lower.lowered_from_plan import lowered_from_plan
from specc.lower.place import link_or_copy
from specc.plan.plan import Plan
from specc.progress import silent
from tests.quantized import rtx_rows
from tests.tensorrt_double import rtx_plan, rtx_profiles
from tests.tiny_engines import plan_from_facts, source_from_sizes, tiny_graph_plan
from tests.tiny_models import TinyLlama

RTX = BACKENDS["tensorrt-rtx"]
QUANTIZED = tuple(name for name, support in RTX.schemes.items() if support.formats)
SIZES = TinyLlama(num_hidden_layers=1, intermediate_size=128, stored="f16")


def built(scheme: str, sm: str, folder: Path) -> tuple[Path, Plan]:
    source = source_from_sizes(folder / "source", SIZES)
    graph = tiny_graph_plan(
        compute_dtype="f16",
        capacity=128,
        capacity_buckets=(128,),
        max_logit_rows=5,
        acceptance="greedy",
        variants=("main",),
        weights=rtx_rows(scheme, 64),
    )
    plan = rtx_plan(plan_from_facts(source.facts, graph), rtx_profiles(4, 32, 4), sms=(sm,))
    for name in ("lowered", "engines"):
        (folder / name).mkdir()
    lowered = lowered_from_plan(plan, source, folder / "lowered", silent)
    (spec,) = TensorRtBackend().engines_from_lowered(lowered, plan, folder / "engines", link_or_copy, silent)
    return folder / "engines" / spec.file, plan


@pytest.mark.parametrize("scheme", QUANTIZED)
def test_a_scheme_builds_on_the_first_gpu_of_its_row(scheme: str, tmp_path: Path) -> None:
    engine, _ = built(scheme, RTX.schemes[scheme].compute_capabilities[0], tmp_path)
    assert set(attention_kernels(engine)) == {"_gemm_mha_v2", "_gemv_mha_v1"}


@pytest.mark.parametrize("scheme", [name for name in QUANTIZED if RTX.schemes[name].compute_capabilities[0] != "7.5"])
def test_the_builder_refuses_it_one_generation_earlier(scheme: str, tmp_path: Path) -> None:
    first = RTX.compute_capabilities.index(RTX.schemes[scheme].compute_capabilities[0])
    with pytest.raises(SpeccError) as caught:
        built(scheme, RTX.compute_capabilities[first - 1], tmp_path)
    assert caught.value.code == "SPC524"


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
