"""The prediction by measured step costs: from the certificate, within what was measured, as the runtime counts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specc import pipeline
from specc.bundle.certificate import CERTIFICATE_FILE, Certificate, StepCost
from specc.bundle.manifest import REPORT_FILE, Manifest
from specc.bundle.read import open_bundle
from specc.bundle.record import record_from_file, text_from_record
from specc.certify import outlook as outlook_module
from specc.certify.machine import costs_from_elsewhere
from specc.certify.outlook import BundleOutlook, check_measured_speedup, outlook_from_bundle
from specc.cli.main import status_from_arguments
from specc.errors import ExitStatus, SpeccError
from specc.plan.plan import PLAN_FILE, Plan
from specc.plan.prediction import Outlook, Prediction
from specc.report.bundle_report import subject_from_bundle, write_bundle_report
from specc.runtime.loading import step_costs_from_bundle
from specc.speculation.expected import expected_tokens
from tests.tiny_models import llama_folder

RECIPE = """\
recipe: 1
name: tiny
target: {model: model}
draft: {kind: ngram}
gamma: 4
gpu: cpu
limits: {max_batch: 2, max_input: 64, max_output: 32, prefill_chunk: 16}
"""
COSTS = tuple(StepCost(b, s, 0.010 + 0.001 * b * s) for b in (1, 2) for s in (1, 2, 3, 5, 16))


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny")
    llama_folder(folder / "model")
    (folder / "tiny.yaml").write_text(RECIPE)
    assert status_from_arguments(["build", str(folder / "tiny.yaml"), "--out", str(folder / "build")]) == 0
    return folder / "build" / "tiny"


@pytest.fixture
def with_costs(bundle):
    """Put step costs into the certificate, and what was there back afterwards."""
    file = bundle / CERTIFICATE_FILE
    before = file.read_text()

    def put(costs: tuple[StepCost, ...]) -> Outlook | None:
        file.write_text(text_from_record(replace(record_from_file(Certificate, file), step_costs=costs)))
        manifest, plan = opened(bundle)
        return outlook_from_bundle(bundle, manifest, plan)

    yield put
    file.write_text(before)


def opened(bundle) -> tuple[Manifest, Plan]:
    return open_bundle(bundle, "sizes"), record_from_file(Plan, bundle / PLAN_FILE)


def test_the_speedup_is_that_of_the_table(with_costs) -> None:
    outlook = with_costs(COSTS)
    assert isinstance(outlook, Prediction)
    assert (outlook.costs, outlook.model_spread, outlook.crossover_limit) == ("measured", 0.0, 2)
    assert [line.batch for line in outlook.batches] == [1, 2]
    for line in outlook.gammas:
        accepted = (outlook.acceptance.mid * line.gamma)[: line.gamma]
        expected = expected_tokens(accepted) * 0.011 / (0.010 + 0.001 * (line.gamma + 1))
        assert line.speedup.mid == pytest.approx(expected, rel=1e-3)
    assert outlook.ar_step_ms == pytest.approx(11)
    assert outlook.ar_ttft_ms == pytest.approx(1e3 * 5 * 0.026)  # 80 tokens in chunks of 16
    assert outlook.calls is None


def test_nothing_is_said_beyond_what_was_measured(with_costs) -> None:
    outlook = with_costs(tuple(cost for cost in COSTS if cost.batch * cost.tokens <= 3))
    assert isinstance(outlook, Prediction)
    assert [line.gamma for line in outlook.gammas] == [1, 2]
    assert [line.batch for line in outlook.batches] == [1]
    assert with_costs(COSTS[:1]) is None
    assert with_costs(()) is None


def test_the_report_and_inspect_take_the_measured_calls(with_costs, bundle, capsys) -> None:
    outlook = with_costs(COSTS)
    assert isinstance(outlook, Prediction)
    subject = subject_from_bundle(bundle)
    assert subject.measured is not None
    assert subject.outlook == outlook
    assert subject.measured.target == COSTS
    write_bundle_report(bundle)
    text = (bundle / REPORT_FILE).read_text()
    assert "and they stand in the place of the model" in text
    assert f"{outlook.at_batch(1).speedup.mid:.2f} times" in text
    assert status_from_arguments(["inspect", str(bundle)]) == 0
    shown = capsys.readouterr().out
    assert f"{outlook.at_batch(1).speedup.mid:.2f} " in shown
    assert "by measured step costs" in shown
    assert str(bundle / REPORT_FILE) in shown


def test_a_report_that_says_the_same_is_left_alone(bundle) -> None:
    write_bundle_report(bundle)
    before = (bundle / REPORT_FILE).stat().st_mtime_ns
    write_bundle_report(bundle)
    assert (bundle / REPORT_FILE).stat().st_mtime_ns == before


def test_a_bundle_without_a_certificate_has_a_report_of_its_plan(bundle) -> None:
    file = bundle / CERTIFICATE_FILE
    text = file.read_text()
    file.unlink()
    try:
        subject = subject_from_bundle(bundle)
    finally:
        file.write_text(text)
    assert subject.measured is None
    assert subject.findings is None
    assert dict(subject.facts)["certificate"] == "none"


def test_a_certificate_of_another_manifest_says_nothing(bundle) -> None:
    file = bundle / CERTIFICATE_FILE
    text = file.read_text()
    assert dict(subject_from_bundle(bundle).facts)["certificate"] == "build check passed"
    file.write_text(text_from_record(replace(record_from_file(Certificate, file), manifest_sha256="0" * 64)))
    try:
        subject = subject_from_bundle(bundle)
    finally:
        file.write_text(text)
    assert (subject.measured, dict(subject.facts)["certificate"]) == (None, "none")


def unmet(bundle, plan: Plan, outlook: Outlook | None, monkeypatch: pytest.MonkeyPatch, **require: float) -> str | None:
    """Check a gate against an outlook; return how it is missed, None where it is met."""
    recipe = {**plan.recipe, "require": {**plan.recipe["require"], **require}}
    opened = BundleOutlook(open_bundle(bundle, "sizes"), replace(plan, recipe=recipe), outlook, "here", None)
    monkeypatch.setattr(outlook_module, "open_outlook", lambda *_: opened)
    try:
        check_measured_speedup(bundle, "r.yaml:7 require.min_speedup")
    except SpeccError as error:
        return f"{error.code} {error.place}: {error.got}"
    return None


def test_a_gate_on_speed_is_checked_by_what_was_measured(bundle, with_costs, monkeypatch) -> None:
    outlook, (_, plan) = with_costs(COSTS), opened(bundle)
    assert isinstance(outlook, Prediction)
    middle = outlook.at_batch(2).speedup.mid
    assert middle > 1.1
    assert unmet(bundle, plan, outlook, monkeypatch, min_speedup=middle - 0.01, at_batch=2) is None
    got = unmet(bundle, plan, outlook, monkeypatch, min_speedup=middle + 0.01, at_batch=2)
    assert got is not None
    where = "SPC307 r.yaml:7 require.min_speedup"
    assert got.startswith(f"{where}: the speed-up by measured step costs is {middle:.2f} (")


def test_a_gate_says_nothing_of_batches_and_bundles_that_were_not_measured(bundle, with_costs, monkeypatch) -> None:
    outlook, (_, plan) = with_costs(COSTS), opened(bundle)
    assert unmet(bundle, plan, outlook, monkeypatch, min_speedup=9, at_batch=3) is None
    assert unmet(bundle, plan, None, monkeypatch, min_speedup=9, at_batch=1) is None


def test_a_build_is_not_published_where_the_measured_calls_miss_the_gate(bundle, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(pipeline, "check_required", lambda *_: None)  # the cost model would have let it pass
    recipe, out = bundle.parents[1] / "tiny.yaml", tmp_path / "out"
    gate = ["--set", "require.min_speedup=40", "--out", str(out)]
    assert status_from_arguments(["build", str(recipe), *gate]) == ExitStatus.GATE
    shown = capsys.readouterr().err
    assert shown.startswith("SPC307 --set require.min_speedup\n  the speed-up by measured step costs is ")
    assert not (out / "tiny").exists()


def test_a_certificate_that_does_not_count_says_why(bundle, capsys) -> None:
    file = bundle / CERTIFICATE_FILE
    before = file.read_text()
    try:
        held = record_from_file(Certificate, file)
        file.write_text(text_from_record(replace(held, manifest_sha256="0" * 64)))
        assert status_from_arguments(["inspect", str(bundle)]) == 0
        shown = capsys.readouterr().out
        assert "no step costs were measured" in shown
        assert "does not count: it speaks of another manifest" in " ".join(shown.split())
        assert "does not count: it speaks of another manifest" in subject_from_bundle(bundle).notes[0]
        assert status_from_arguments(["run", str(bundle), "--prompt", "a", "--max-tokens", "2"]) == 0
        assert "does not count: it speaks of another manifest" in " ".join(capsys.readouterr().err.split())
    finally:
        file.write_text(before)


def test_step_costs_of_another_processor_steer_and_are_said_to(bundle, capsys) -> None:
    file = bundle / CERTIFICATE_FILE
    before = file.read_text()
    held = record_from_file(Certificate, file)
    measured = held.step_costs or (StepCost(1, 1, 0.002), StepCost(1, 2, 0.003))
    commands = (["inspect"], ["plan"], ["run", "--prompt", "a", "--max-tokens", "2"])
    try:
        for machine, told in (("Zilog Z80", True), (held.machine, False)):
            file.write_text(text_from_record(replace(held, machine=machine, step_costs=measured)))
            assert step_costs_from_bundle(bundle).target is not None
            for name, *options in commands:
                assert status_from_arguments([name, str(bundle), *options]) == 0
                shown = capsys.readouterr()
                assert ("were measured on Zilog Z80, and this is" in " ".join((shown.out + shown.err).split())) is told
    finally:
        file.write_text(before)
    assert costs_from_elsewhere(replace(held, machine="Zilog Z80"), "tensorrt-rtx", bundle) is None  # a GPU ran them
    assert costs_from_elsewhere(None, "onnxruntime", bundle) is None
