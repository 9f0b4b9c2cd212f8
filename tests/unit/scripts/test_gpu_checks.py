"""The sections of `scripts/gpu_check.py` over a double of the CUDA driver: each passes, and each is seen to fail."""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest

from gpu_checks.card_bundles import CardBundles, backend_for, card_bundles
from gpu_checks.driver import CudaDriver
from gpu_checks.launches import Buffer
from gpu_checks.machine import Machine, Scale, assembled
from gpu_checks.one import outcome_from_check
from gpu_checks.outcome import LackingError, Outcome
from gpu_checks.plugin_engine import OTHER_HASH, verification_model
from gpu_checks.sections import SECTIONS
from specc.bundle.certificate import StepCost
from specc.cli.main import status_from_arguments
from specc.plugin.targets import KERNEL_TARGETS
from specc.runtime import Session
from tests.cuda_double import CudaDouble
from tests.fake_kernels import fake_assembled, fake_kernels
from tests.tiny_models import TinyLlama, llama_folder
from tests.trt_verification_double import FakeTensorRt, Library

# A program of Triton's interpreter takes tens of milliseconds.
SMALL = Scale(
    vocabularies=(48, 53), sequences=2, vocabulary=1040, batches=(1,), gamma=1, hidden_sizes=(32,), head_rows=(2,),
    repeats=1, soak=2, flush_bytes=1 << 12, tokens=16, shape_changes=12,
)  # fmt: skip


class HostProduct:
    """The product of matrices over the double's memory."""

    def __init__(self, driver: CudaDriver) -> None:
        self.driver = driver

    def __call__(self, hidden: Buffer, weight: Buffer, logits: Buffer) -> None:
        read = [
            self.driver.download(b.address, b.nbytes).view(ml_dtypes.bfloat16).reshape(b.shape).astype(np.float32)
            for b in (hidden, weight)
        ]
        self.driver.upload(logits.address, (read[0] @ read[1].T).astype(ml_dtypes.bfloat16))


RECIPE = """\
recipe: 1
name: {name}
target: {{model: {model}}}
draft: ngram
gamma: {{max: 4, default: 3}}
gpu: cpu
limits: {{max_batch: 2, max_input: 64, max_output: 64, prefill_chunk: 16}}
certify: off
"""


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return bundles of ONNX Runtime that stand for the card's, by what the card does wrong, and for the reference."""
    root = tmp_path_factory.mktemp("bundles")
    for name, seed in (("right", 1), ("wrong", 2)):
        llama_folder(root / name, TinyLlama(seed=seed))
    made = {}
    for name, model in (("reference", "right"), ("", "right"), ("engine", "wrong")):
        recipe = root / f"b{name}.yaml"
        recipe.write_text(RECIPE.format(name=f"b{name}", model=model))
        assert status_from_arguments(["build", str(recipe), "--out", str(root / "out")]) == 0
        made[name] = root / "out" / f"b{name}"
    return made


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fake_kernels(tmp_path_factory.mktemp("kernels"), "8.0", "9.0")


def machine(kernels: Path, double: CudaDouble, scale: Scale = SMALL, seconds: float = 600) -> Machine:
    return Machine(
        kernels, seconds, kernels, scale, new_driver=lambda: CudaDriver(double), torch_device="cpu",
        assemble=fake_assembled, new_product=HostProduct,
    )  # fmt: skip


def run(name: str, machine: Machine) -> Outcome:
    module = importlib.import_module(f"gpu_checks.checks.{SECTIONS[name].module}")
    return outcome_from_check(name, module.check, machine)


ON_ENGINES = ("engines", "step_costs", "speed")


def with_engines(kernels: Path, bundles: dict[str, Path], wrong: str = "") -> Machine:
    """Return a machine whose card runs a bundle of ONNX Runtime."""
    found = CardBundles(bundles[wrong], bundles["reference"])
    return replace(machine(kernels, CudaDouble()), new_bundles=lambda *_: found)


@pytest.mark.slow
@pytest.mark.parametrize("name", ON_ENGINES)
def test_a_section_of_engines_passes_where_all_is_right(name: str, kernels: Path, bundles: dict[str, Path]) -> None:
    outcome = run(name, with_engines(kernels, bundles))
    assert (outcome.status, outcome.reason) == ("passed", ""), outcome
    assert len(outcome.findings) >= 4


@pytest.mark.slow
def test_an_engine_with_other_tokens_than_the_reference_fails(kernels: Path, bundles: dict[str, Path]) -> None:
    outcome = run("engines", with_engines(kernels, bundles, "engine"))
    assert outcome.status == "failed"
    assert "prompt of 5: the reference's own" in outcome.reason


@pytest.mark.slow
@pytest.mark.parametrize("name", ["engines", "speed"])
def test_speculation_that_changes_an_id_fails(
    name: str, kernels: Path, bundles: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    generate = Session.generate

    def spoiled(self: Session, prompts: Any, params: Any) -> Any:
        made = generate(self, prompts, params)
        if params.mode == "spec":
            made = [replace(one, token_ids=(one.token_ids[0] + 1, *one.token_ids[1:])) for one in made]
        return made

    monkeypatch.setattr(Session, "generate", spoiled)
    outcome = run(name, with_engines(kernels, bundles))
    assert outcome.status == "failed"
    assert "ids of speculation are AR's" in outcome.reason


@pytest.mark.slow
def test_step_costs_of_no_time_fail(kernels: Path, bundles: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("gpu_checks.checks.step_costs")
    costs = (StepCost(1, 1, 1e-3), StepCost(1, 5, 0.0))
    monkeypatch.setattr(module, "measure_step_costs", lambda *_given, **_named: costs)
    assert "T(B 1, S 5)" in run("step_costs", with_engines(kernels, bundles)).reason


def test_what_lacks_for_engines_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    lacking = {"tensorrt"}
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name in lacking else found(name))
    with pytest.raises(LackingError, match=r"tensorrt is not installed; tensorrt-rtx does not serve SM 9\.0"):
        card_bundles(tmp_path, "9.0", None)
    assert backend_for("8.9") == "tensorrt-rtx"
    lacking.add("gguf")
    with pytest.raises(LackingError, match="its reader, the package gguf, is not installed"):
        card_bundles(tmp_path, "8.9", None)


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


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in SECTIONS if name not in (*ON_ENGINES, *ON_TENSORRT)])
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
    outcome = run(name, machine(kernels, CudaDouble(wrong=wrong)))
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
