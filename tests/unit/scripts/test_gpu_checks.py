"""The sections of `scripts/gpu_check.py` over a double of the CUDA driver: each passes, and each is seen to fail."""

from __future__ import annotations

import ctypes
import importlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpu_checks.driver import CudaDriver
from gpu_checks.machine import assembled
from gpu_checks.outcome import LackingError
from gpu_checks.sections import SECTIONS
from specc.plugin.targets import KERNEL_TARGETS
from tests.cuda_double import CudaDouble
from tests.gpu_machine import SMALL, HostProduct, machine, run

ON_DRIVER = tuple(
    name for name, row in SECTIONS.items() if not row.backend and name not in ("plugin", "leak", "timings")
)
# A section that breaks is seen to with the sizes of one vocabulary.
NARROW = replace(SMALL, vocabularies=(53,), vocabulary=64)


@pytest.mark.slow
@pytest.mark.parametrize("name", ON_DRIVER)
def test_a_section_passes_where_all_is_right(name: str, kernels: Path) -> None:
    double = CudaDouble()
    outcome = run(name, machine(kernels, double))
    assert (outcome.status, outcome.reason) == ("passed", ""), outcome
    assert len(outcome.findings) >= 2
    assert not double.blocks, "memory was not given back"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "wrong", "reason"),
    [
        ("abi", "parameters", "kernels with other parameters"),
        ("abi", "result", "greedy: sequences that differ"),
        ("abi", "behind", "greedy: sequences that differ"),
        ("cubin", "result", "assembled for SM 9.0, greedy"),
        ("shared", "result", "64 KB after asking"),
        ("numerics", "result", "rejection, 53 ids"),
        ("roofline", "clock", "B 1 GreedyPartials"),
        ("lmhead", "head", "hidden 32, 2 rows: same maxima"),
        ("thresholds", "race", "bf16: launches that differ"),
        ("capture", "graph", "coupled: sequences that differ"),
    ],
)
def test_a_section_fails_where_the_card_is_wrong(name: str, wrong: str, reason: str, kernels: Path) -> None:
    outcome = run(name, machine(kernels, CudaDouble(wrong=wrong), NARROW))
    assert outcome.status == "failed"
    assert reason in outcome.reason
    assert [finding for finding in outcome.findings if finding.met is False]


def test_the_launcher_section_fails_where_the_kernels_are_wrong(kernels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    launcher = importlib.import_module("gpu_checks.checks.launcher")
    right = launcher.results_of_launcher

    def spoiled(*given: Any) -> Any:
        results = right(*given)
        results["tokens"][0, 0] += 1
        return results

    monkeypatch.setattr(launcher, "results_of_launcher", spoiled)
    assert run("launcher", machine(kernels, CudaDouble())).status == "failed"


def test_a_card_without_kernels_fails_the_environment_and_lacks_the_rest(kernels: Path) -> None:
    old = machine(kernels, CudaDouble(compute_capability="7.5"))
    assert run("environment", old).reason == "not met: SM"
    outcome = run("numerics", old)
    assert (outcome.status, outcome.reason) == ("skipped", "the plugin has no kernels for SM 7.5")


def test_assembled_code_of_another_generation_is_refused_and_of_this_one_runs(kernels: Path) -> None:
    newer = run("cubin", machine(kernels, CudaDouble()))
    refused = {finding.what: finding for finding in newer.findings}["assembled for SM 8.0"]
    assert (refused.value, refused.met) == ("CUDA_ERROR_NO_BINARY_FOR_GPU", True)
    older = run("cubin", machine(kernels, CudaDouble(compute_capability="8.0")))
    assert [finding.met for finding in older.findings] == [True, True, True]


def test_what_no_time_is_left_for_is_said(kernels: Path) -> None:
    outcome = run("roofline", machine(kernels, CudaDouble(), seconds=0))
    assert [finding.value for finding in outcome.findings[1:]] == ["left out"] * 3


def test_no_product_leaves_the_fused_head_alone(kernels: Path) -> None:
    def lacking(driver: CudaDriver) -> HostProduct:
        raise LackingError("torch is not installed")

    alone = replace(machine(kernels, CudaDouble()), new_product=lacking)
    outcome = run("lmhead", alone)
    assert outcome.status == "passed"
    assert outcome.findings[0].note == "torch is not installed"


def test_kernels_that_nothing_compiles_are_lacking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specc.plugin.compiled_from_variant.TRITON_VERSION", "0.0.0")
    monkeypatch.setenv("SPECC_CACHE", str(tmp_path / "cache"))
    outcome = run("abi", replace(machine(tmp_path, CudaDouble()), kernels=None))
    assert outcome.status == "skipped"
    assert outcome.reason.startswith("no kernels: Triton ")
    assert "--kernels takes" in outcome.reason


def test_no_gpu_is_lacking() -> None:
    with pytest.raises(LackingError, match="no GPU"):
        CudaDriver(CudaDouble(devices=0))


def test_an_old_driver_does_not_tell_parameters(kernels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(CudaDouble, "_cuFuncGetParamInfo")
    outcome = run("abi", machine(kernels, CudaDouble()))
    told = {finding.what: finding for finding in outcome.findings}["kernels with other parameters"]
    assert (told.met, told.note) == (True, "the driver is too old to say")


def test_an_argument_too_few_is_noticed_by_the_double(kernels: Path) -> None:
    """Else the exact parameters would be proved by nothing."""
    double = CudaDouble()
    driver = CudaDriver(double)
    module = driver.module((kernels / "9.0" / "GreedyPartials.bf16.ptx").read_bytes())
    function = driver.function(module, "row_partials")
    with pytest.raises(AssertionError, match="argument is missing"):
        driver.launch(function, (1, 1, 1), 128, 0, [ctypes.c_uint64(0)])


def test_text_is_assembled_by_the_assembler_that_comes_with_triton() -> None:
    text = ".version 8.7\n.target sm_90a\n.address_size 64\n.visible .entry nothing(\n.param .u64 p\n)\n{ ret; }\n"
    assert assembled(text, KERNEL_TARGETS["9.0"]).startswith(b"\x7fELF")
