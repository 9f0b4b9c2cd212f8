"""The coded errors of a build for TensorRT: the machine, the recipe's limits, the lock's timings."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from specc.backends import tensorrt_monitor
from specc.bundle.lock import LOCK_FILE
from specc.pipeline import BuildRequest
from tests.tensorrt_builder import Machine
from tests.tensorrt_case import built, objects, refused

READY = ["graphs of tiny", "weights of tiny"]


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


def test_spc505_names_the_kernels_too_where_they_cannot_be_compiled(
    trt_request: BuildRequest, tmp_path: Path, no_compiler: None
) -> None:
    error = refused(trt_request, kernels=None)
    assert error.code == "SPC505"
    assert error.got.endswith("kernels are not compiled either: Triton 3.7.1 is installed.")
    assert "graphs and weights are in the store" in error.why
    assert objects(tmp_path / "store") == READY


def test_spc531_the_users_own_kernels_are_refused_where_they_cannot_be_used_too(
    trt_request: BuildRequest, tmp_path: Path
) -> None:
    assert trt_request.kernels is not None
    broken = shutil.copytree(trt_request.kernels, tmp_path / "broken")
    for file in (broken / "9.0").glob("*.ptx"):
        file.write_text(file.read_text() + "\n")
    error = refused(trt_request, kernels=broken)
    assert error.code == "SPC531"
    assert error.place.startswith(str(broken / "9.0"))
    assert error.got == "Its content is not what kernels.json says."
    error = refused(trt_request, kernels=tmp_path / "nowhere")
    assert (error.code, error.got) == ("SPC531", "there is no kernels.json here")


def test_spc506_the_builder_takes_too_long(
    trt_request: BuildRequest, machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = []
    clock = SimpleNamespace(now=0.0, monotonic=lambda: clock.now)
    monkeypatch.setattr(tensorrt_monitor, "time", clock)

    def slow(step: int) -> None:
        steps.append(step)
        clock.now += 60.0

    machine.on_step = slow
    error = refused(trt_request, "backend.builder_minutes=1.5")
    assert (error.code, error.place) == ("SPC506", "backend.builder_minutes")
    assert error.got == "build target.engine was not done after 1.5 minutes"
    assert "smaller prefill_chunk" in error.fix
    assert steps == [0, 1], "it ends at its next step"
    assert objects(tmp_path / "store") == READY


def test_spc613_the_timings_of_the_lock_are_not_here(
    trt_request: BuildRequest, machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = built(trt_request, stop_after="publish") / LOCK_FILE
    monkeypatch.setenv("SPECC_CACHE", str(tmp_path / "empty"))
    error = refused(replace(trt_request, locked=True, lock=lock))
    digest = json.loads(lock.read_text())["timing_caches"]["target"]
    assert (error.code, error.place) == ("SPC613", "--locked")
    assert error.got == f"the store holds no timing cache of digest {digest[:12]}"
    assert "SPECC_CACHE" in error.fix
    assert objects(tmp_path / "empty") == READY
