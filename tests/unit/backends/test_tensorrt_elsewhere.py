"""A machine that cannot build engines of TensorRT gets everything ready for one that can."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from specc import pipeline
from specc.pipeline import BuildRequest
from specc.plugin import bundle_from_source
from tests.plugin_launch import write_empty_kernels
from tests.tensorrt_builder import Machine, tensorrt_machine
from tests.tensorrt_case import built, objects, refused, told

READY = ["graphs of tiny", "weights of tiny"]


@pytest.fixture
def no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle_from_source, "TRITON_VERSION", "none")
    monkeypatch.setattr("specc.plugin.compiled_from_variant.TRITON_VERSION", "none")


def test_spc505_neither_the_library_nor_a_gpu(trt_request: BuildRequest, tmp_path: Path) -> None:
    error = refused(trt_request)
    assert (error.code, error.place) == ("SPC505", "backend.name tensorrt")
    assert "the package `tensorrt` cannot be imported (No module named 'tensorrt')" in error.got
    assert "the package `cuda-python` is not installed" in error.got
    assert f"graphs, weights and compiled kernels are in the store, {tmp_path / 'store'}" in error.why
    assert "on a machine with h100-sxm-80gb" in error.fix
    assert objects(tmp_path / "store") == READY
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("gpu", "got"),
    [
        (None, "CUDA finds no GPU (cudaErrorNoDevice)"),
        (("NVIDIA L4", "8.9"), "its GPU is NVIDIA L4 (SM 8.9), and the engines are for SM 9.0"),
    ],
)
def test_spc505_another_gpu_or_none(
    trt_request: BuildRequest, machine: Machine, tmp_path: Path, gpu: tuple[str, str] | None, got: str
) -> None:
    machine.gpu = gpu
    assert refused(trt_request).got == f"engines of tensorrt cannot be built on this machine: {got}"
    assert (objects(tmp_path / "store"), machine.calls) == (READY, [])


def test_an_engine_for_all_from_ampere_on_is_built_on_any_of_them(trt_request: BuildRequest, machine: Machine) -> None:
    machine.gpu = ("NVIDIA L4", "8.9")
    assert told(built(trt_request, "backend.hardware_compatibility=ampere-plus"))["compatibility"] == "AMPERE_PLUS"


def test_the_build_goes_on_where_the_gpu_is(
    trt_request: BuildRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a copy of the store: nothing is lowered or written again."""
    refused(trt_request)
    shutil.copytree(tmp_path / "store", tmp_path / "copied")
    monkeypatch.setenv("SPECC_CACHE", str(tmp_path / "copied"))

    def again(*_: object, **__: object) -> None:
        raise AssertionError("it was in the store")

    monkeypatch.setattr(pipeline, "write_weights", again)
    monkeypatch.setattr(pipeline, "write_graphs", again)
    with tensorrt_machine(Machine()):
        assert told(built(trt_request))["kernels"]


def test_a_build_compiles_kernels_that_are_nowhere(
    trt_request: BuildRequest, machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And only those that the engine holds; what `specc kernels build` put into the store is taken first."""
    asked = []

    def write(variants: tuple[object, ...], target: object, folder: Path, progress: object) -> None:
        asked.append(len(variants))
        made = write_empty_kernels(tmp_path / f"made{len(asked)}", folder.name)
        shutil.copytree(made / folder.name, folder, dirs_exist_ok=True)

    monkeypatch.setattr(bundle_from_source, "write_kernels", write)
    folder = built(trt_request, kernels=None)
    assert (asked, built(trt_request, kernels=None)) == ([3], folder)
    assert "kernels for SM 9.0" in objects(tmp_path / "store")


def test_without_a_compiler_the_build_says_so_at_once(
    trt_request: BuildRequest, machine: Machine, tmp_path: Path, no_compiler: None
) -> None:
    error = refused(trt_request, kernels=None)
    assert error.code == "SPC532"
    assert "--kernels" in error.fix
    assert objects(tmp_path / "store") == []


def test_spc505_names_the_kernels_too_where_they_cannot_be_compiled(
    trt_request: BuildRequest, tmp_path: Path, no_compiler: None
) -> None:
    error = refused(trt_request, kernels=None)
    assert error.code == "SPC505"
    assert error.got.endswith("kernels are not compiled either: Triton 3.7.1 is installed.")
    assert "graphs and weights are in the store" in error.why
    assert objects(tmp_path / "store") == READY


def test_lowering_alone_needs_neither(trt_request: BuildRequest, tmp_path: Path) -> None:
    folder = built(replace(trt_request, stop_after="lower", kernels=None))
    assert (folder / "target.onnx").is_file()
    assert "tensorrt" not in sys.modules
