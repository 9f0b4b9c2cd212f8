"""What a plan predicts, on what it rests, and what follows from it: gamma auto, gates, previews, comparisons."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from specc.bundle.record import json_from_record, record_from_json, text_from_record
from specc.bundle.statistics import AcceptanceStatistics
from specc.plan.compare import COLUMNS, comparison_row, variants_from_text
from specc.plan.make import plan_from_recipe
from specc.plan.measured import acceptance_from_file, acceptance_from_statistics
from specc.plan.outlook import Given
from specc.plan.plan import Plan
from specc.plan.prediction import Prediction, Unpredicted, shown_batches
from specc.plan.preview import Facts, Preview, preview_from_recipe
from specc.recipe.schema import Recipe
from tests.cpu_machine import machine_from_rates
from tests.published_speedups import LLAMA_8B, QWEN3_1_7B, llama_like
from tests.stated_source import StatedSource

BASE = {"recipe": 1, "name": "x", "target": {"model": "m"}, "draft": "ngram", "gpu": "rtx-4090"}
LLAMA_70B = llama_like(8192, 28672, 80, (64, 8), 128256)
SLOW_CPU = machine_from_rates(18.5e9, 114e9)
COUNTS = AcceptanceStatistics(
    rounds=100, ar_steps=25, no_proposal=20, proposed=400, accepted=138, proposed_per_position=(100, 100, 100, 100),
    evaluated_per_position=(100, 72, 41, 0), accepted_per_position=(72, 41, 25, 0),
)  # fmt: skip


def recipe(**keys) -> Recipe:
    return Recipe.model_validate({**BASE, **keys})


def planned(given: Given | None = None, **keys) -> Plan:
    source = StatedSource(facts=replace(LLAMA_8B, max_position_embeddings=4096))
    return plan_from_recipe(recipe(**keys), source, None, given or Given())


def predicted(given: Given | None = None, **keys) -> Prediction:
    outlook = planned(given, **keys).prediction
    assert isinstance(outlook, Prediction)
    return outlook


def test_a_prediction_is_a_record_and_the_same_every_time() -> None:
    plan = planned(gpu="rtx-5090")
    assert record_from_json(Plan, json_from_record(plan)) == plan
    assert text_from_record(planned(gpu="rtx-5090")) == text_from_record(plan)


def test_the_workload_chooses_the_prior() -> None:
    chat, code = predicted(), predicted(workload="code")
    assert code.acceptance.mid > chat.acceptance.mid
    assert code.batches[0].speedup.mid > chat.batches[0].speedup.mid
    assert chat.acceptance.source.startswith("prior, ")
    assert "no measurement of json" in predicted(workload="json").acceptance.source


def test_lines_agree_with_each_other() -> None:
    outlook = predicted(gamma=6, limits={"max_batch": 96, "max_input": 64, "max_output": 64}, require={"at_batch": 7})
    assert [line.gamma for line in outlook.gammas] == [1, 2, 3, 4, 5, 6]
    assert [line.batch for line in outlook.batches] == [1, 2, 4, 7, 8, 16, 32, 64, 96]
    first = outlook.at_batch(1)
    assert first.gamma == outlook.best_gamma
    assert first.speedup == outlook.gammas[first.gamma - 1].speedup
    for line in outlook.batches:
        assert line.user_tokens.mid == pytest.approx(line.ar_user_tokens * line.speedup.mid, rel=2e-3)
        assert line.gpu_tokens.mid == pytest.approx(line.user_tokens.mid * line.batch, rel=2e-3)
    if outlook.crossover_batch is not None:
        assert outlook.pays_from == 1
        assert all((line.gamma > 0) == (line.batch < outlook.crossover_batch) for line in outlook.batches)
    assert shown_batches((96,))[-1] == 96


def test_gamma_auto_takes_the_best_of_batch_one_and_a_stated_gamma_stays() -> None:
    plan = planned()
    assert isinstance(plan.prediction, Prediction)
    assert plan.limits.default_gamma == max(1, plan.prediction.best_gamma)
    assert plan.limits.max_gamma == 8
    assert planned(gamma={"max": 8, "default": 7}).limits.default_gamma == 7
    hopeless = acceptance_from_statistics(replace(COUNTS, accepted_per_position=(0, 0, 0, 0)), "x")
    assert planned(Given(acceptance=hopeless)).limits.default_gamma == 1


def test_measured_acceptance_replaces_the_prior(tmp_path: Path) -> None:
    file = tmp_path / "acceptance.json"
    file.write_text(json.dumps({"schema": 1, "bundle": "b", "statistics": json_from_record(COUNTS)}))
    measured = acceptance_from_file(file)
    assert measured.mid == pytest.approx((72 / 120, 41 / 72, 25 / 41), abs=1e-12)
    assert all(a < m < b for a, m, b in zip(measured.low, measured.mid, measured.high, strict=True))
    # Wilson, 72 of 120 at 95 %: 0.5106 to 0.6832 (any table of score intervals).
    assert (measured.low[0], measured.high[0]) == pytest.approx((0.5106, 0.6832), abs=2e-4)
    assert predicted(Given(acceptance=measured)).acceptance.source == "measured: acceptance.json, 120 steps"
    file.write_text(text_from_record(COUNTS))
    assert acceptance_from_file(file) == measured


def test_a_cpu_is_predicted_from_its_probe_alone() -> None:
    keys = {"gpu": "cpu"}
    without = planned(**keys)
    assert without.prediction == Unpredicted(
        "not predicted", "run `specc probe`: nothing was measured of this machine's CPU"
    )
    assert without.limits.default_gamma == 5
    outlook = predicted(Given(machine=SLOW_CPU), **keys)
    assert outlook.ar_step_ms > 4 * 7.5e9 / 18.5e9 * 1e3  # no faster than reading the weights


def test_without_a_drafter_there_is_ar_alone() -> None:
    outlook = predicted(draft="none")
    assert (outlook.best_gamma, outlook.gammas, outlook.crossover_batch) == (0, (), None)
    assert all(line.speedup.mid == 1 for line in outlook.batches)


def test_first_layers_as_a_draft_are_not_guessed() -> None:
    outlook = planned(Given(machine=SLOW_CPU), gpu="cpu", draft={"kind": "self", "layers": 4}).prediction
    assert isinstance(outlook, Unpredicted)
    assert "--acceptance" in outlook.reason


def preview(facts: Facts, **keys) -> Preview:
    return preview_from_recipe(recipe(**keys), facts, Given(), None)


PAIR = {"draft": {"kind": "model", "model": "d", "scheme": "bf16"}, "gpu": {"name": "h100-sxm-80gb", "count": 4}}


def test_a_model_that_cannot_be_built_is_previewed() -> None:
    shown = preview(Facts(LLAMA_70B, QWEN3_1_7B), target={"model": "m", "scheme": "fp8", "kv_cache": "fp8"}, **PAIR)
    # A quarter of 68.5e9 bytes of layers at 8 bits, and of embedding and head at 16.
    weights = sum(item.bytes for item in shown.memory if item.name.startswith("weights"))
    assert weights == pytest.approx((68.45e9 + 4 * 8192 * 128256) / 4, rel=1e-3)
    cache = next(item for item in shown.memory if item.name == "kv cache")
    assert cache.bytes == 4 * 2560 * 2 * 80 * 8 * 128 // 4
    assert isinstance(shown.prediction, Prediction)
    assert shown.prediction.best_gamma > 0
    assert shown.limits.default_gamma == shown.prediction.best_gamma != 5
    assert f"a request starts with {shown.prediction.best_gamma}." in shown.notes[0]
    unknown = preview(Facts(LLAMA_70B, None), **PAIR)
    assert isinstance(unknown.prediction, Unpredicted)
    assert "--draft-config" in unknown.prediction.reason


def test_an_eagle3_head_can_be_compared_before_it_can_be_built() -> None:
    shown = preview(Facts(LLAMA_8B, None, "eagle3"))
    assert shown.draft_kind == "eagle3"
    assert isinstance(shown.prediction, Prediction)
    assert "DSpark" in shown.prediction.acceptance.source
    plain = preview(Facts(LLAMA_8B, None))
    assert shown.memory_bytes > plain.memory_bytes


def test_variants_of_each_axis() -> None:
    gpus = variants_from_text("gpus=l4, l40s", recipe())
    assert [(v.label, v.overrides) for v in gpus] == [("l4", ('gpu.name="l4"',)), ("l40s", ('gpu.name="l40s"',))]
    assert [v.fixed_gamma for v in variants_from_text("gamma=2..4", recipe())] == [2, 3, 4]
    assert [v.fixed_gamma for v in variants_from_text("gamma=2,8", recipe())] == [2, 8]
    drafts = variants_from_text("drafts=model,eagle3,none", recipe(**PAIR))
    assert [v.overrides for v in drafts] == [(), (), ('draft={kind: "none"}', "gamma=auto")]
    assert drafts[1].drafter == "eagle3"
    assert variants_from_text("schemes=f16,fp8", recipe())[1].overrides == ('target.scheme="fp8"',)


def test_a_row_says_what_does_not_fit_and_what_is_not_predicted() -> None:
    variant = variants_from_text("gpus=rtx-4090", recipe())[0]
    big = comparison_row(variant, preview(Facts(LLAMA_70B, None), target={"model": "m", "scheme": "fp8"}))
    assert len(big) == len(COLUMNS) + 1
    assert big[1].endswith(" > 24")
    assert big[-1] == "SPC305"
    assert "not predicted" in comparison_row(variant, preview(Facts(LLAMA_8B, None), gpu="cpu"))
    only = comparison_row(variants_from_text("gamma=3", recipe())[0], preview(Facts(LLAMA_8B, None), gamma=3))
    assert (only[3], only[5:7]) == ("3", ["-", "-"])
