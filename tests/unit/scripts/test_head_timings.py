"""From the section `lmhead` to a plan: what a card measured decides who multiplies by the head."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import gpu_check
import pytest

from gpu_checks.outcome import outcome_from_file, write_outcome
from specc.catalog.head_timings import HeadTiming
from specc.plan.make import plan_from_recipe
from specc.plan.plan import Plan
from specc.probe.heads import given_here, heads_file, remember_head_timings, remembered_head_timings
from specc.recipe.schema import Recipe
from tests.cuda_double import CudaDouble
from tests.stated_source import StatedSource
from tests.unit.scripts.test_gpu_checks import machine, run

SLOW = HeadTiming("9.0", "bf16", 576, 49152, 80, 100.0, 120.0, "a card, a date")


@pytest.fixture(autouse=True)
def fresh_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECC_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.fake_kernels import fake_kernels

    return fake_kernels(tmp_path_factory.mktemp("kernels"), "8.0", "9.0")


def planned() -> Plan:
    recipe = {"recipe": 1, "name": "x", "target": {"model": "m"}, "draft": "ngram", "gpu": "h100-sxm-80gb"}
    more = {
        "backend": {"name": "tensorrt"},
        "acceptance": "greedy",
        "gamma": {"max": 4, "default": 4},
        "limits": {"max_batch": 16},
    }
    return plan_from_recipe(Recipe.model_validate(recipe | more), StatedSource(), given=given_here())


def test_what_the_section_measures_reaches_the_plans_of_this_machine(kernels: Path, tmp_path: Path) -> None:
    outcome = run("lmhead", machine(kernels, CudaDouble()))
    write_outcome(outcome, tmp_path / "lmhead.json")
    read = outcome_from_file(tmp_path / "lmhead.json")
    assert read is not None
    (timing,) = gpu_check.head_timings([read])
    assert (timing.hidden_size, timing.vocab_size, timing.rows, timing.dtype) == (32, 1040, 2, "bf16")
    assert timing.native > 0
    assert timing.fused > 0
    remember_head_timings((timing,))
    assert given_here().head_timings == (timing,)


def test_a_section_that_failed_says_nothing_of_the_head(kernels: Path) -> None:
    outcome = run("lmhead", machine(kernels, CudaDouble(wrong="head")))
    assert outcome.status == "failed"
    assert gpu_check.head_timings([outcome]) == ()


def test_a_measurement_decides_where_the_rule_did_before() -> None:
    by_rule = planned()
    assert by_rule.graph.head == "fused"
    assert any("no timing of this GPU is known" in note for note in by_rule.notes)
    remember_head_timings((SLOW,))
    measured = planned()
    assert measured.graph.head == "native"
    assert any("120 us as one kernel were measured (a card, a date)" in note for note in measured.notes)
    remember_head_timings((replace(SLOW, fused=80.0, source="later"),))
    assert planned().graph.head == "fused", "the later of two measurements of the same"
    remember_head_timings((replace(SLOW, compute_capability="8.9"),))
    assert len(remembered_head_timings()) == 2, "of another card beside it"


def test_a_damaged_memory_and_one_of_other_kernels_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    remember_head_timings((SLOW,))
    monkeypatch.setattr("specc.probe.heads.source_hash", lambda: "another source")
    assert remembered_head_timings() == ()
    monkeypatch.undo()
    heads_file().parent.mkdir(parents=True, exist_ok=True)
    heads_file().write_text("{")
    assert remembered_head_timings() == ()
