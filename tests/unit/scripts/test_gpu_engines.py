"""The sections of `scripts/gpu_check.py` that run engines of a back end, over ONNX Runtime in the card's place."""

from __future__ import annotations

import importlib
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpu_checks.card_bundles import CardBundles, card_bundles
from gpu_checks.machine import Machine
from gpu_checks.outcome import LackingError, Outcome, table_from_outcomes, text_from_outcome
from gpu_checks.run_sections import run_sections
from gpu_checks.sections import SECTIONS, Section
from specc.bundle.certificate import StepCost
from specc.catalog.capabilities import BackendName
from specc.cli.main import status_from_arguments
from specc.runtime import Session
from tests.cuda_double import CudaDouble
from tests.gpu_machine import machine, run
from tests.tiny_models import TinyLlama, llama_folder

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


LIBRARIES: tuple[BackendName, ...] = ("tensorrt", "tensorrt-rtx")
ON_ENGINES = tuple(name for name, row in SECTIONS.items() if row.backend)


def with_engines(kernels: Path, bundles: dict[str, Path], wrong: str = "") -> Machine:
    """Return a machine whose card runs a bundle of ONNX Runtime."""
    found = CardBundles(bundles[wrong], bundles["reference"])
    return replace(machine(kernels, CudaDouble()), backend="tensorrt", new_bundles=lambda *_: found)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["engines", "costs", "speed"])
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
    assert "T(B 1, S 5)" in run("costs", with_engines(kernels, bundles)).reason


def test_each_library_has_sections_of_its_own() -> None:
    """The same ones, the questions of one before the costs of the other: a run that ends early has told the most."""
    rows = [SECTIONS[name] for name in ON_ENGINES]
    assert [(row.module, row.backend) for row in rows] == [
        (module, backend) for module in ("engines", "step_costs", "speed") for backend in ("tensorrt", "tensorrt-rtx")
    ]


@pytest.mark.parametrize(
    ("sm", "missing", "reasons"),
    [
        ("9.0", "", {"tensorrt-rtx": "tensorrt-rtx does not serve SM 9.0"}),
        ("7.5", "", {"tensorrt": "tensorrt does not serve SM 7.5"}),
        ("8.9", "", {}),
        ("8.9", "tensorrt", {"tensorrt": "the library, the package tensorrt, is not installed"}),
        ("8.9", "tensorrt_rtx", {"tensorrt-rtx": "the library, the package tensorrt_rtx, is not installed"}),
        ("12.0", "gguf", dict.fromkeys(LIBRARIES, "its reader, the package gguf, is not installed")),
    ],
)
def test_each_installed_library_that_serves_the_card_runs(
    sm: str, missing: str, reasons: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpu_checks.card_bundles._built", lambda _out, backend, *_: Path(backend))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == missing else object())
    found: dict[str, str] = {}
    for backend in LIBRARIES:
        try:
            assert card_bundles(tmp_path, backend, sm, None) == CardBundles(Path(backend), Path("onnxruntime"))
        except LackingError as error:
            found[backend] = str(error)
    assert found == reasons


@pytest.mark.slow
def test_one_library_that_fails_leaves_the_other_and_each_says_which_it_was(
    kernels: Path, bundles: dict[str, Path], tmp_path: Path
) -> None:
    """As processes do: the table has the lines of both, and a second run keeps the one that passed."""
    asked: list[str] = []

    def new_bundles(_out: Path, backend: str, *_given: object) -> CardBundles:
        asked.append(backend)
        return CardBundles(bundles["engine" if backend == "tensorrt" else ""], bundles["reference"])

    def outcome(section: Section) -> Outcome:
        here = replace(machine(kernels, CudaDouble()), backend=section.backend, new_bundles=new_bundles)
        return run(section.name, here)

    def command(section: Section, file: Path, _seconds: float) -> list[str]:
        return [sys.executable, "-c", f"open({str(file)!r}, 'w').write({text_from_outcome(outcome(section))!r})"]

    both = [SECTIONS["engines"], SECTIONS["engines-rtx"]]
    outcomes = run_sections(both, tmp_path, 60, "same", command=command)
    assert [(one.section, one.status) for one in outcomes] == [("engines", "failed"), ("engines-rtx", "passed")]
    table = table_from_outcomes(outcomes)
    assert "engines       failed" in table
    assert "engines-rtx   passed" in table
    run_sections(both, tmp_path, 60, "same", command=command)
    assert asked == ["tensorrt", "tensorrt-rtx", "tensorrt"]
