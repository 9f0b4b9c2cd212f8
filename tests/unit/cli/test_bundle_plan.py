"""`specc plan BUNDLE`: what was measured of a bundle stands in the place of its cost model, and beside it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from specc.bundle.record import json_from_record
from specc.cli.main import status_from_arguments
from specc.errors import ExitStatus
from tests.tiny_models import llama_folder
from tests.unit.plan.test_prediction import COUNTS

RECIPE = """\
recipe: 1
name: tiny
target: {model: model}
draft: {kind: ngram}
gamma: 4
gpu: cpu
limits: {max_batch: 2, max_input: 64, max_output: 32, prefill_chunk: 16}
"""


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    llama_folder(folder / "model")
    (folder / "tiny.yaml").write_text(RECIPE)
    assert status_from_arguments(["build", str(folder / "tiny.yaml"), "--out", str(folder / "build")]) == 0
    return folder / "build" / "tiny"


def planned(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert status_from_arguments(["plan", *arguments]) == ExitStatus.DONE
    return capsys.readouterr().out


def test_the_measured_calls_replace_the_model(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = json.loads(planned(capsys, str(bundle), "--json"))
    assert (shown["prediction"]["kind"], shown["prediction"]["costs"]) == ("predicted", "measured")
    assert shown["measured_on"] == json.loads((bundle / "certificate.json").read_text())["machine"]
    kept = json.loads((bundle / "plan.json").read_text())
    assert shown["modelled_prediction"] == kept["prediction"]
    assert {key: shown[key] for key in kept if key != "prediction"} == {
        key: value for key, value in kept.items() if key != "prediction"
    }


def test_both_are_shown(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = planned(capsys, str(bundle)).splitlines()
    assert "Intervals: that of the acceptance; calls cost what was measured of this bundle." in lines
    shown = " ".join(" ".join(lines).split())
    assert " calls priced by measured step costs " in shown
    assert "by measured step costs and published acceptance" in shown
    assert any(line.startswith("predicted  ") for line in lines)
    assert max(len(line.rstrip()) for line in lines) <= 80


def test_measured_acceptance_joins_measured_calls(
    bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "acceptance.json"
    file.write_text(json.dumps({"statistics": json_from_record(COUNTS)}))
    prediction = json.loads(planned(capsys, str(bundle), "--json", "--acceptance", str(file)))["prediction"]
    assert prediction["acceptance"]["source"].startswith("measured: acceptance.json")
    assert prediction["costs"] == "measured"


def test_the_report_is_the_bundles(bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    planned(capsys, str(bundle), "--report", str(tmp_path / "r.html"))
    assert (tmp_path / "r.html").read_bytes() == (bundle / "report.html").read_bytes()


@pytest.mark.parametrize(
    "option", [("--set", "gamma=2"), ("--compare", "gamma=1..2"), ("--config", "c.json"), ("--workload", "code")]
)
def test_a_bundle_is_not_planned_anew(
    bundle: Path, option: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_from_arguments(["plan", str(bundle), *option]) == ExitStatus.USER_INPUT
    assert capsys.readouterr().err.startswith(f"SPC906 {option[0]}\n  given with {bundle}, a bundle\n")
