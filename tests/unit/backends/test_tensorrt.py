"""Real engines of tiny models, built by the installed TensorRT-RTX on a machine without a GPU."""

from __future__ import annotations

import importlib.metadata
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from specc.backends import BACKENDS
from specc.backends.tensorrt import TensorRtBackend
from specc.backends.tensorrt_build import BuildSetup, collecting_logger, config_from_plan
from specc.backends.tensorrt_file import attention_kernels, expected_kernels, write_engine
from specc.backends.tensorrt_monitor import BuildWatch, build_monitor
from specc.backends.tensorrt_rows import TENSORRT_RTX
from specc.bundle.manifest import EngineSpec
from specc.lower.lowered import LoweredGraph
from specc.lower.lowered_from_plan import lowered_from_plan
from specc.lower.place import link_or_copy
from specc.plan.plan import BackendPlan, BuilderPlan, Plan
from specc.progress import silent
from tests.tensorrt_double import rtx_plan, rtx_profiles
from tests.tiny_engines import plan_from_facts, source_from_sizes, tiny_graph_plan
from tests.tiny_models import TinyLlama

MAGIC = b"vtrt"
EVENTS = list[tuple[str, int, int]]


def build(
    folder: Path,
    *,
    sms: tuple[str, ...] = ("8.9",),
    profiles: tuple[str, ...] = ("prefill", "decode", "verify"),
    layers: int = 2,
    **graph: object,
) -> tuple[EngineSpec, Path, EVENTS, Plan]:
    source = source_from_sizes(folder / "source", TinyLlama(stored="f16", num_hidden_layers=layers))
    changes = {"compute_dtype": "f16", "capacity_buckets": (128,), "max_logit_rows": 5, "candidates": 64, **graph}
    plan = plan_from_facts(source.facts, tiny_graph_plan(**changes))
    chosen = tuple(profile for profile in rtx_profiles(4, 32, 4) if profile.name in profiles)
    plan = rtx_plan(plan, chosen, sms=sms)
    for name in ("lowered", "engines"):
        (folder / name).mkdir()
    lowered = lowered_from_plan(plan, source, folder / "lowered", silent)
    events: EVENTS = []

    def note(what: str, done: int, total: int) -> None:
        events.append((what, done, total))

    (spec,) = TensorRtBackend().engines_from_lowered(lowered, plan, folder / "engines", link_or_copy, note)
    assert [path.name for path in (folder / "engines").iterdir()] == ["target.engine"]
    return spec, folder / "engines" / spec.file, events, plan


@pytest.mark.slow
def test_a_sampling_engine_with_three_profiles(tmp_path: Path) -> None:
    """Also guards the time: with the noise fused into the sampler the builder runs for more than ten minutes."""
    spec, file, events, plan = build(tmp_path)
    assert file.read_bytes()[:4] == MAGIC
    assert expected_kernels(plan.backend.profiles) == {"_gemm_mha_v2", "_gemv_mha_v1"}
    assert set(attention_kernels(file)) == {"_gemm_mha_v2", "_gemv_mha_v1"}
    assert (spec.format, spec.file, spec.capacity, spec.compute_dtype) == ("tensorrt-rtx", "target.engine", 128, "f16")
    assert spec.profiles == plan.backend.profiles
    assert spec.compute_capabilities == ("8.9",)
    assert [tensor.dtype for tensor in spec.inputs if tensor.name == "key_cache_1"] == ["f16"]
    builds = [event for event in events if event[0] == "build target.engine"]
    assert builds == [("build target.engine", n, builds[0][2]) for n in sorted(event[1] for event in builds)]
    assert builds[-1][1] == builds[-1][2] > 1
    assert events[-1] == ("write target.engine", file.stat().st_size, file.stat().st_size)


@pytest.mark.slow
def test_one_greedy_engine_for_three_generations_of_gpus(tmp_path: Path) -> None:
    sms = ("8.6", "8.9", "12.0")
    spec, file, _, plan = build(tmp_path, sms=sms, acceptance="greedy", features=("logits", "token_logprobs"))
    assert spec.compute_capabilities == sms
    assert set(attention_kernels(file)) == expected_kernels(plan.backend.profiles)
    assert "seed" not in {tensor.name for tensor in spec.inputs}
    assert {"logits", "token_logprobs"} <= {tensor.name for tensor in spec.outputs}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("acceptance", "profiles"),
    [("rejection", ("verify",)), ("block", ("decode", "verify"))],
    ids=["rejection", "block"],
)
def test_engines_that_judge_drafts_by_their_distribution(
    tmp_path: Path, acceptance: str, profiles: tuple[str, ...]
) -> None:
    """A profile takes the builder seconds, whatever the layers: as few as show that rows of one and of more build."""
    spec, file, _, plan = build(tmp_path, acceptance=acceptance, profiles=profiles, layers=1)
    assert set(attention_kernels(file)) == expected_kernels(plan.backend.profiles)
    shapes = {tensor.name: tensor.shape for tensor in spec.inputs}
    assert shapes["q_ids"] == shapes["q_probs"] == ("B", "R", 64)


def test_a_profile_of_one_token_alone_names_its_kernel_alone() -> None:
    _, decode, verify = rtx_profiles(4, 32, 4)
    assert expected_kernels((decode,)) == {"_gemv_mha_v1"}
    assert expected_kernels((verify,)) == {"_gemm_mha_v2"}
    assert expected_kernels((replace(decode, tokens=(1, 1, 2)),)) == {"_gemm_mha_v2"}


def test_the_toolchain_is_the_installed_library() -> None:
    assert BACKENDS["tensorrt-rtx"].toolchain() == {"tensorrt-rtx": importlib.metadata.version("tensorrt_rtx")}


def test_an_interrupt_ends_the_build_without_passing_through_the_builder() -> None:
    import tensorrt_rtx

    def interrupt(what: str, done: int, total: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    watch = BuildWatch("build", interrupt, None)
    monitor = build_monitor(tensorrt_rtx, watch)
    monitor.phase_start("outer", None, 4)
    assert monitor.step_complete("outer", 0)
    monitor.phase_start("inner", "outer", 9)
    assert monitor.step_complete("inner", 5)
    assert not monitor.step_complete("outer", 1)
    assert isinstance(watch.stopped, KeyboardInterrupt)


def configured(tmp_path: Path, builder_plan: BuilderPlan) -> tuple[Any, Any]:
    """Return a configuration of TensorRT-RTX for a plan, and an untouched one."""
    import tensorrt_rtx as trt

    logger = collecting_logger(trt)
    builder = trt.Builder(logger)
    setup = BuildSetup(trt, TENSORRT_RTX, builder, logger, tmp_path / "target.engine", silent, None)
    plan = BackendPlan("tensorrt-rtx", (), ("8.6", "8.9"), builder=builder_plan)
    return config_from_plan(setup, LoweredGraph("target", "main", "target.onnx", (), (), ()), plan), (
        builder.create_builder_config()
    )


def test_a_recipe_that_says_nothing_leaves_the_configuration_alone(tmp_path: Path) -> None:
    """But for the GPUs: what the builder of TensorRT-RTX gets is what it always got."""
    import tensorrt_rtx as trt

    config, untouched = configured(tmp_path, BuilderPlan())
    assert config.num_compute_capabilities == 2
    pools = trt.MemoryPoolType.__members__.values()
    for read in (
        lambda c: c.flags,
        lambda c: c.hardware_compatibility_level,
        lambda c: c.builder_optimization_level,
        lambda c: c.progress_monitor,
        lambda c: [c.get_memory_pool_limit(pool) for pool in pools],
    ):
        assert read(config) == read(untouched)


def test_a_memory_limit_is_that_of_the_scratch(tmp_path: Path) -> None:
    import tensorrt_rtx as trt

    config, untouched = configured(tmp_path, BuilderPlan(memory_bytes=1 << 30))
    assert config.get_memory_pool_limit(trt.MemoryPoolType.WORKSPACE) == 1 << 30
    tried = trt.MemoryPoolType.TACTIC_DRAM
    assert config.get_memory_pool_limit(tried) == untouched.get_memory_pool_limit(tried)


def test_an_engine_appears_when_it_is_whole(tmp_path: Path) -> None:
    content = bytes(range(256)) * 3
    target = tmp_path / "target.engine"
    seen: list[bool] = []
    write_engine(memoryview(content), target, lambda *_: seen.append(target.exists()))
    assert seen == [False]
    assert target.read_bytes() == content
    assert [path.name for path in tmp_path.iterdir()] == ["target.engine"]
