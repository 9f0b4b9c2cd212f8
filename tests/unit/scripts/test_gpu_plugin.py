"""The sections of `scripts/gpu_check.py` that build engines of the verification, over doubles of TensorRT and CUDA."""

from __future__ import annotations

import importlib
from pathlib import Path

import onnx
import pytest

from gpu_checks.outcome import Outcome
from gpu_checks.plugin_engine import OTHER_HASH, verification_model
from tests.cuda_double import CudaDouble
from tests.gpu_machine import machine, run
from tests.trt_verification_double import FakeTensorRt, Library

ON_TENSORRT = ("plugin", "leak", "timings")


def run_on_tensorrt(name: str, kernels: Path, monkeypatch: pytest.MonkeyPatch, wrong: str = "") -> Outcome:
    """Run a section that builds engines of the verification."""
    double, library = CudaDouble(wrong=wrong), Library()
    trt = FakeTensorRt(double, library)
    module = importlib.import_module(f"gpu_checks.checks.{name}")
    monkeypatch.setattr(module, "tensorrt", lambda: trt)
    monkeypatch.setattr(module, "plugin_library", lambda: library)
    if name == "timings":
        monkeypatch.setattr(module, "library_of_other_source", lambda _trt: library)
    outcome = run(name, machine(kernels, double))
    assert not double.blocks
    return outcome


@pytest.mark.parametrize("name", ON_TENSORRT)
def test_a_section_of_tensorrt_passes_where_all_is_right(
    name: str, kernels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = run_on_tensorrt(name, kernels, monkeypatch)
    assert (outcome.status, outcome.reason) == ("passed", ""), outcome
    found = {finding.what: finding for finding in outcome.findings}
    if name == "plugin":
        assert found["64 KB"].value == "refused"
        assert found["assembled kernels: sequences that differ"].met
    if name == "timings":
        assert found["with another hash of the source"].note.endswith("timed anew")


@pytest.mark.parametrize(
    ("name", "wrong", "reason"),
    [
        ("plugin", "engine", "rejection, as a CUDA graph: sequences that differ"),
        ("plugin", "graph", "coupled, as a CUDA graph: sequences that differ"),
        ("leak", "leak", "executions of changing shapes: memory lost"),
        ("timings", "timings", "the same again"),
    ],
)
def test_a_section_of_tensorrt_fails_where_it_is_wrong(
    name: str, wrong: str, reason: str, kernels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = run_on_tensorrt(name, kernels, monkeypatch, wrong)
    assert outcome.status == "failed"
    assert reason in outcome.reason


@pytest.mark.parametrize("name", ON_TENSORRT)
def test_without_tensorrt_a_section_says_so(name: str, kernels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    outcome = run(name, machine(kernels, CudaDouble()))
    assert (outcome.status, outcome.reason) == ("skipped", "the package tensorrt is not installed")


def test_operators_of_another_source_have_other_names_in_a_whole_file(kernels: Path) -> None:
    here = machine(kernels, CudaDouble())
    true, other = (onnx.load_from_string(verification_model(here, "coupled", source)) for source in (None, OTHER_HASH))
    names = [{node.op_type for node in model.graph.node if "_" in node.op_type} for model in (true, other)]
    assert {name.split("_")[0] for name in names[0]} == {name.split("_")[0] for name in names[1]}
    assert all(name.endswith("_ffffffffffff") for name in names[1])
    assert not names[0] & names[1]
