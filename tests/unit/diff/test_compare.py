"""`specc diff` on two bundles that were really built, and on their recipes, plans and locks."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from specc.bundle.certificate import Certificate
from specc.bundle.read import open_bundle
from specc.bundle.record import record_from_file, text_from_record
from specc.cli.main import status_from_arguments
from specc.diff.compare import comparison_from_sides
from specc.diff.measured import measured_notes, measurements_from_bundle, predicted_speedup_of
from specc.diff.side import side_from_path
from specc.diff.text import lines_from_comparison
from specc.pipeline import plan_from_file
from specc.runtime.call_costs import BurstCosts
from tests.tiny_models import llama_folder

RECIPE = """\
recipe: 1
name: one
target: {model: model}
draft: {kind: ngram}
gamma: 4
gpu: cpu
limits: {max_batch: 2, max_input: 64, max_output: 32, prefill_chunk: 16}
"""
PLANNED = partial(plan_from_file, overrides=(), offline=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Return a folder with recipes one.yaml and two.yaml, and their bundles below build/."""
    folder = tmp_path_factory.mktemp("diff")
    llama_folder(folder / "model")
    (folder / "one.yaml").write_text(RECIPE)
    (folder / "two.yaml").write_text(RECIPE.replace("one", "two").replace("gamma: 4", "gamma: 6").replace("64", "128"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECC_CACHE", str(folder / "cache"))  # other tests look at what lies in the common one
        for name in ("one", "two"):
            assert status_from_arguments(["build", str(folder / f"{name}.yaml"), "--out", str(folder / "build")]) == 0
    return folder


def compared(a: Path, b: Path):
    return comparison_from_sides(side_from_path(a, PLANNED), side_from_path(b, PLANNED))


def changed(comparison) -> dict[str, dict[str, tuple[str | None, str | None]]]:
    return {part.part: {change.key: (change.a, change.b) for change in part.changes} for part in comparison.changes}


def test_two_bundles(folder):
    comparison = compared(folder / "build" / "one", folder / "build" / "two")
    found = changed(comparison)
    assert found["recipe"] == {
        "gamma.default": ("4", "6"),
        "gamma.max": ("4", "6"),
        "limits.max_input": ("64", "128"),
        "name": ('"one"', '"two"'),
    }
    assert found["plan"]["graph.max_logit_rows"] == ("5", "7")
    assert found["sources"] == found["toolchain"] == {}
    assert set(found["engines"]) == {"engines/target.logits.onnx.sha256", "engines/target.onnx.sha256"}
    effects = {part.part: {q.name: q for q in part.quantities} for part in comparison.effects}
    assert set(effects) == {"size", "memory", "step costs", "acceptance (MAL)", "predicted speed-up"}
    bytes_below = sum(path.stat().st_size for path in (folder / "build" / "one" / "engines").iterdir())
    assert effects["size"]["engines"].a == bytes_below
    assert effects["memory"]["logits"].b > effects["memory"]["logits"].a
    assert effects["step costs"]["T(1,1)"].a > 0
    assert set(effects["acceptance (MAL)"]) == {"greedy", "t=1.2 k=50 p=0.9 min_p=0.02"}
    assert not comparison.same


def test_a_bundle_is_the_same_as_itself_its_recipe_its_plan_and_its_lock(folder):
    bundle = folder / "build" / "one"
    for other in (bundle, folder / "one.yaml", bundle / "plan.json", bundle / "recipe.lock.json"):
        comparison = compared(bundle, other)
        assert comparison.same, changed(comparison)
        assert comparison.notes == ()


def test_parts_follow_from_what_both_sides_hold(folder):
    bundle, lock = folder / "build" / "one", folder / "build" / "two" / "recipe.lock.json"
    assert [part.part for part in compared(lock, bundle).changes] == ["sources", "toolchain"]
    assert [part.part for part in compared(folder / "one.yaml", bundle / "plan.json").changes] == ["recipe", "plan"]


def test_a_recipe_that_cannot_be_planned_is_compared_by_its_keys(folder):
    other = folder / "other.yaml"
    other.write_text(RECIPE.replace("{model: model}", "{model: missing}"))
    comparison = compared(folder / "one.yaml", other)
    assert changed(comparison) == {"recipe": {"target.model": ('"model"', '"missing"')}}
    assert comparison.notes[0].startswith(f"{other} was not planned: SPC2")


def test_a_changed_source_shows_in_the_lock(folder, tmp_path):
    lock = folder / "build" / "one" / "recipe.lock.json"
    document = json.loads(lock.read_text())
    document["sources"]["target"]["files"][0]["sha256"] = "0" * 64
    document["toolchain"]["numpy"] = "0"
    (tmp_path / "recipe.lock.json").write_text(json.dumps(document))
    found = changed(compared(lock, tmp_path / "recipe.lock.json"))
    (key,) = found["sources"]
    assert key == f"target.files.{document['sources']['target']['files'][0]['name']}"
    assert set(found["toolchain"]) == {"numpy"}


def test_a_certificate_of_another_manifest_is_left_out(folder, tmp_path):
    bundle = folder / "build" / "one"
    certificate = record_from_file(Certificate, bundle / "certificate.json")
    kept = (bundle / "certificate.json").read_text()
    try:
        (bundle / "certificate.json").write_text(text_from_record(replace(certificate, manifest_sha256="0" * 64)))
        comparison = compared(bundle, folder / "build" / "two")
        assert [part.part for part in comparison.effects] == ["size", "memory"]
        (note,) = comparison.notes
        assert note.startswith(
            f"{bundle / 'certificate.json'} does not count: it speaks of another manifest (sha256 0000"
        )
        assert note.endswith(f"`specc verify {bundle}` writes it anew")
    finally:
        (bundle / "certificate.json").write_text(kept)


def test_other_machines_and_prompts_are_said(folder):
    one = record_from_file(Certificate, folder / "build" / "one" / "certificate.json")
    assert measured_notes(one, one) == ()
    (machine,) = measured_notes(one, replace(one, machine="another"))
    assert machine == f"measured on other machines: {one.machine}; another"
    (prompts,) = measured_notes(one, replace(one, scope="full"))
    assert prompts == "acceptance was measured on other prompts: build check, 3 bundled; full check, 3 bundled"


def test_the_predicted_speedup_is_mal_over_the_cost_of_a_round(folder):
    bundle = folder / "build" / "one"
    certificate = record_from_file(Certificate, bundle / "certificate.json")
    check = replace(certificate.parity[0], rounds=10, accepted=20, gamma=4)
    costs = {(cost.batch, cost.tokens): cost.seconds for cost in certificate.step_costs}
    priced = measurements_from_bundle(bundle, open_bundle(bundle, "sizes"), certificate).costs
    predicted = predicted_speedup_of(priced, check)
    assert predicted == pytest.approx(3.0 * costs[1, 1] / costs[1, 5], rel=0.2)  # the table smooths measurements
    drafted = replace(priced, draft=priced.target)  # single draft calls as dear as the target's
    assert predicted_speedup_of(drafted, check) < predicted / 2
    assert predicted_speedup_of(None, check) is None
    assert predicted_speedup_of(priced, replace(check, rounds=0)) is None


def test_unrolled_drafts_are_priced_as_the_calls_that_a_session_makes(folder):
    """Four drafts of one unrolled call cost that call, not four single ones."""
    bundle = folder / "build" / "one"
    certificate = record_from_file(Certificate, bundle / "certificate.json")
    check = replace(certificate.parity[0], rounds=10, accepted=20, gamma=4)
    priced = measurements_from_bundle(bundle, open_bundle(bundle, "sizes"), certificate).costs
    single = replace(priced, draft=priced.target)
    unrolled = replace(single, burst=BurstCosts(priced.target, steps=4))
    ar, verify = priced.target.seconds(1, 1), priced.target.seconds(1, 5)
    assert predicted_speedup_of(unrolled, check) == pytest.approx(3.0 * ar / (verify + priced.target.seconds(1, 2)))
    assert predicted_speedup_of(unrolled, check) > 1.5 * predicted_speedup_of(single, check)


def test_the_model_is_not_compared_where_both_were_measured(folder):
    measured = changed(compared(folder / "build" / "one", folder / "build" / "two"))
    assert not any(key.startswith("prediction") for key in measured["plan"])


def test_two_recipes_of_a_gpu_show_what_is_predicted(folder):
    """What a choice does to the predicted speed, as numbers and not as cut lists of JSON."""
    (folder / "gpu.yaml").write_text(RECIPE.replace("gpu: cpu", "gpu: rtx-4090"))
    near = side_from_path(folder / "gpu.yaml", PLANNED)
    prediction = near.plan.prediction
    (first, *rest) = prediction.batches
    other = replace(
        prediction,
        ar_step_ms=2 * prediction.ar_step_ms,
        batches=(replace(first, speedup=replace(first.speedup, mid=1.5)), *rest),
    )
    comparison = comparison_from_sides(near, replace(near, plan=replace(near.plan, prediction=other)))
    effects = {part.part: {q.name: (q.a, q.b) for q in part.quantities} for part in comparison.effects}
    step = prediction.ar_step_ms / 1000
    assert effects["predicted times, batch 1"]["AR step"] == (step, 2 * step)
    assert effects["predicted speed-up"]["batch 1, its best gamma"] == (first.speedup.mid, 1.5)
    assert changed(comparison)["plan"] == {}
    shown = "\n".join(lines_from_comparison(comparison))
    assert re.search(r"\n  AR step .* \+100\.0 %\n", shown)
    assert "batch 1, its best gamma" in shown
    assert not comparison.same
    assert comparison_from_sides(near, near).same


def test_the_command_line(folder, capsys):
    one, two = str(folder / "one.yaml"), str(folder / "two.yaml")
    assert status_from_arguments(["diff", one, two]) == 0
    shown = capsys.readouterr().out
    assert "  gamma.max: 4 -> 6" in shown
    assert max(map(len, shown.splitlines()[2:])) <= 80
    assert status_from_arguments(["diff", one, two, "--exit-code"]) == 3
    capsys.readouterr()
    assert status_from_arguments(["diff", one, one, "--exit-code", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["same"] is True
