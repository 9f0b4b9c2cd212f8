"""The coded errors of the TensorRT back end and of its runner."""

from __future__ import annotations

import errno
import importlib.metadata
import os
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import onnx
import pytest
from onnx import TensorProto, helper

from specc.backends.tensorrt import TensorRtBackend
from specc.backends.tensorrt_build import _refusal, set_targets
from specc.backends.tensorrt_file import write_engine
from specc.bundle.manifest import EngineSpec
from specc.errors import SpeccError
from specc.lower.lowered import Lowered
from specc.lower.lowered_from_plan import lowered_from_plan
from specc.lower.place import link_or_copy
from specc.plan.plan import Plan
from specc.progress import silent
from specc.runtime.runners.tensorrt import TensorRtRunner
from specc.runtime.runners.tensorrt_cuda import CudaDevice, cuda_device
from specc.runtime.runners.tensorrt_vendor import vendor_library
from tests.double_runner import toy_spec
from tests.tensorrt_double import DoubleLibrary, HostDevice, rtx_plan, rtx_profiles
from tests.tiny_engines import plan_from_facts, source_from_sizes, tiny_graph_plan
from tests.tiny_models import TinyLlama

RTX_SMS = "7.5, 8.0, 8.6, 8.9, 12.0, 12.1"


@pytest.fixture
def lowered(tmp_path: Path) -> tuple[Lowered, Plan]:
    source = source_from_sizes(tmp_path / "source", TinyLlama(num_hidden_layers=1, stored="f16"))
    graph = tiny_graph_plan(compute_dtype="f16", acceptance="greedy", capacity_buckets=(64,))
    plan = rtx_plan(plan_from_facts(source.facts, graph), rtx_profiles(4, 32, 4))
    for name in ("lowered", "engines"):
        (tmp_path / name).mkdir()
    return lowered_from_plan(plan, source, tmp_path / "lowered", silent), plan


def build(lowered: Lowered, plan: Plan, tmp_path: Path) -> SpeccError:
    with pytest.raises(SpeccError) as caught:
        TensorRtBackend().engines_from_lowered(lowered, plan, tmp_path / "engines", link_or_copy, silent)
    assert not list((tmp_path / "engines").iterdir())
    return caught.value


def with_sms(plan: Plan, *sms: str) -> Plan:
    return replace(plan, backend=replace(plan.backend, compute_capabilities=sms))


def test_spc501_the_builder_is_not_installed(
    tmp_path: Path, lowered: tuple[Lowered, Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setitem(sys.modules, "tensorrt_rtx", None)
    error = build(*lowered, tmp_path)
    monkeypatch.setattr(importlib.metadata, "version", absent)
    with pytest.raises(SpeccError) as caught:
        TensorRtBackend().toolchain()
    for each in (error, caught.value):
        assert each.code == "SPC501"
        assert each.place == "backend.name tensorrt-rtx"
        assert each.got == "The package `tensorrt_rtx` is not installed."
        assert each.fix == "pip install 'specc[rtx]'"


def test_spc503_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_self: Path, _target: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(SpeccError) as caught:
        write_engine(memoryview(b"x" * 1000), tmp_path / "target.engine", silent)
    assert caught.value.code == "SPC503"
    assert caught.value.place == str(tmp_path / "target.engine")
    assert caught.value.got == "The engine of 1000 bytes cannot be written: No space left on device."
    assert not list(tmp_path.iterdir())


def test_spc520_the_parser_refuses_nodes_by_name(tmp_path: Path, lowered: tuple[Lowered, Plan]) -> None:
    files, plan = lowered
    path = tmp_path / "lowered" / "target.onnx"
    model = onnx.load(path, load_external_data=False)
    model.graph.node.append(helper.make_node("NonZero", ["num_tokens"], ["places"], name="odd_node"))
    model.graph.output.append(helper.make_tensor_value_info("places", TensorProto.INT64, [1, None]))
    onnx.save(model, path)
    error = build(files, plan, tmp_path)
    assert error.code == "SPC520"
    assert error.place == str(path)
    assert "NonZero `odd_node`: " in error.got
    assert error.got.startswith("The parser of tensorrt_rtx 1.")
    assert "docs/tensorrt-rtx.md" in error.fix


def test_spc523_the_builder_refuses_and_is_quoted(tmp_path: Path, lowered: tuple[Lowered, Plan]) -> None:
    """Attention in float32 has no fused kernel; planning refuses the scheme, so only a broken plan comes here."""
    files, plan = lowered
    wide = replace(plan, backend=replace(plan.backend, profiles=(rtx_profiles(4, 2, 4)[1],) * 0))
    error = build(files, wide, tmp_path)
    assert error.code == "SPC523"
    assert error.place == str(tmp_path / "engines" / "target.engine")
    assert error.got.startswith("The builder of tensorrt_rtx 1.")
    assert "no optimization profile has been defined" in error.got
    assert "three times the weights" in error.fix


def test_spc524_a_gpu_lacks_an_element_type(tmp_path: Path) -> None:
    source = source_from_sizes(tmp_path / "source", TinyLlama(num_hidden_layers=1, stored="bf16"))
    graph = tiny_graph_plan(compute_dtype="bf16", acceptance="greedy", capacity_buckets=(64,))
    plan = rtx_plan(plan_from_facts(source.facts, graph), rtx_profiles(4, 32, 4), sms=("7.5", "8.9"))
    for name in ("lowered", "engines"):
        (tmp_path / name).mkdir()
    error = build(lowered_from_plan(plan, source, tmp_path / "lowered", silent), plan, tmp_path)
    assert error.code == "SPC524"
    assert error.place == str(tmp_path / "engines" / "target.engine")
    assert error.got == "The graph uses b16, which sm75 has no arithmetic for."
    assert "backend.compute_capabilities (7.5, 8.9)" in error.fix


def test_spc524_reads_the_builders_own_words() -> None:
    import tensorrt_rtx

    said = (
        "Error Code 9: Skipping tactic 0x0 due to exception Myelin ([pass.cpp:1500: run_passes] Cannot compile for "
        "target(s) sm89, because the model contains HW-specific datatypes: fp4_e2m1."
    )
    error = _refusal(tensorrt_rtx, ["something else", said, "more"], Path("target.engine"), ("8.9",))
    assert (error.code, error.got) == ("SPC524", "The graph uses fp4_e2m1, which sm89 has no arithmetic for.")
    assert _refusal(tensorrt_rtx, [], Path("target.engine"), ("8.9",)).got.endswith("it said: nothing")


@pytest.mark.parametrize("sm", ["9.0", "10.0", "8.7"])
def test_spc525_a_gpu_that_the_library_does_not_know(tmp_path: Path, lowered: tuple[Lowered, Plan], sm: str) -> None:
    files, plan = lowered
    error = build(files, with_sms(plan, "8.9", sm), tmp_path)
    assert error.code == "SPC525"
    assert error.place == "backend.compute_capabilities"
    assert error.got.startswith(f"SM {sm} is not among the GPUs of tensorrt_rtx 1.")
    assert error.got.endswith(f": {RTX_SMS}.")
    assert "`tensorrt` or `tensorrt-llm`" in error.fix


def test_every_gpu_of_the_library_is_set() -> None:
    import tensorrt_rtx as trt

    builder = trt.Builder(trt.Logger(trt.Logger.ERROR))
    config = builder.create_builder_config()
    set_targets(trt, config, ("7.5", "8.9", "12.1"))
    assert [config.get_compute_capability(i) for i in range(3)] == [
        trt.ComputeCapability.SM75,
        trt.ComputeCapability.SM89,
        trt.ComputeCapability.SM121,
    ]


def rtx_spec(*sms: str) -> EngineSpec:
    profiles = rtx_profiles(2, 8, 2)
    spec = replace(toy_spec(), format="tensorrt-rtx", file="target.engine", capacity=64)
    return replace(spec, profiles=profiles, compute_capabilities=sms)


@pytest.mark.parametrize("sm", ["8.6", "9.0", "12.1"])
def test_spc526_an_engine_for_other_gpus(tmp_path: Path, sm: str) -> None:
    spec = rtx_spec("8.9", "12.0")
    library = DoubleLibrary(spec, the_device=HostDevice(sm))
    with pytest.raises(SpeccError) as caught:
        TensorRtRunner(spec, tmp_path / "target.engine", library)
    assert caught.value.code == "SPC526"
    assert caught.value.place == str(tmp_path / "target.engine")
    assert caught.value.got == f"the engine was built for SM 8.9, 12.0; a double is SM {sm}"
    assert f"backend.compute_capabilities with {sm}" in caught.value.fix


def test_spc528_another_version_built_the_engine(tmp_path: Path) -> None:
    """Both are named, and the file is not even looked for."""
    spec = replace(rtx_spec("8.9"), library="1.7.0.9")
    with pytest.raises(SpeccError) as caught:
        TensorRtRunner(spec, tmp_path / "target.engine", DoubleLibrary(spec))
    assert caught.value.code == "SPC528"
    assert caught.value.place == str(tmp_path / "target.engine")
    expected = "the engine was built by a double of TensorRT 1.7.0.9; here is a double of TensorRT double"
    assert caught.value.got == expected
    assert "install a double of TensorRT 1.7.0.9" in caught.value.fix


def test_spc527_tensorrt_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorrt", None)
    with pytest.raises(SpeccError) as caught:
        vendor_library("tensorrt")
    assert (caught.value.code, caught.value.place) == ("SPC527", "TensorRT")
    assert caught.value.fix == "pip install 'specc[tensorrt]' cuda-python"


def test_spc527_cuda_python_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("cuda", "cuda.bindings"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(SpeccError) as caught:
        cuda_device()
    assert caught.value.code == "SPC527"
    assert caught.value.place == "CUDA"
    assert caught.value.got == "the package `cuda-python` is not installed"
    assert "backend onnxruntime" in caught.value.fix


def test_spc527_tensorrt_rtx_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorrt_rtx", None)
    with pytest.raises(SpeccError) as caught:
        vendor_library("tensorrt-rtx")
    assert caught.value.code == "SPC527"
    assert caught.value.place == "TensorRT-RTX"
    assert caught.value.fix == "pip install 'specc[rtx]' cuda-python"


def test_spc528_the_file_is_no_engine(tmp_path: Path) -> None:
    file = tmp_path / "target.engine"
    file.write_bytes(b"vtrt" + bytes(1000))
    with pytest.raises(SpeccError) as caught:
        vendor_library("tensorrt-rtx").engine(file)
    assert caught.value.code == "SPC528"
    assert caught.value.place == str(file)
    assert caught.value.got.startswith("TensorRT-RTX 1.")
    assert not caught.value.got.endswith("it said: nothing")
    assert "the manifest's toolchain" in caught.value.fix


class OtherEngine:
    """An engine with a tensor more than the manifest, or with fewer profiles."""

    def __init__(self, tensor_names: tuple[str, ...], profile_count: int) -> None:
        self.tensor_names = tensor_names
        self.profile_count = profile_count


@pytest.mark.parametrize(("extra", "profiles", "got"), [(("odd",), 3, "in odd"), ((), 1, "in 1 profiles, not 3")])
def test_spc528_the_engine_is_not_the_manifests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, extra: tuple[str, ...], profiles: int, got: str
) -> None:
    spec = rtx_spec("8.9")
    names = tuple(tensor.name for tensor in spec.inputs)
    library = DoubleLibrary(spec)
    monkeypatch.setattr(library, "engine", lambda _file: OtherEngine((*names, *extra), profiles))
    with pytest.raises(SpeccError) as caught:
        TensorRtRunner(spec, tmp_path / "target.engine", library)
    assert caught.value.code == "SPC528"
    assert caught.value.got == f"the engine differs from the manifest {got}"


def test_spc529_cuda_refuses_a_call() -> None:
    refusing = SimpleNamespace(
        cudaError_t=SimpleNamespace(cudaSuccess=0),
        cudaGetDevice=lambda: (SimpleNamespace(name="cudaErrorECCUncorrectable"), None),
    )
    with pytest.raises(SpeccError) as caught:
        CudaDevice(refusing)
    assert caught.value.code == "SPC529"
    assert caught.value.place == "CUDA"
    assert caught.value.got == "CUDA answers cudaErrorECCUncorrectable"
    assert "must fit on the device" in caught.value.why
    assert "limits.max_batch" in caught.value.fix
