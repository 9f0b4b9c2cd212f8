"""`specc plan --report`: one file beside what the terminal shows, for recipes that are built and those that are not."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from specc.cli.main import status_from_arguments
from specc.cli.write import write_text
from specc.errors import ExitStatus
from tests.errors.test_planning_errors import CONFIG, DRAFT, H100
from tests.tiny_models import llama_folder

RECIPE = """\
recipe: 1
name: tiny
target: {model: model}
draft: {kind: ngram}
gpu: cpu
limits: {max_batch: 2, max_input: 64, max_output: 32, prefill_chunk: 16}
"""


@pytest.fixture(scope="module")
def recipe(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    llama_folder(folder / "model")
    (folder / "tiny.yaml").write_text(RECIPE)
    return folder / "tiny.yaml"


@pytest.fixture
def configs(tmp_path: Path) -> list[str]:
    for name, config in (("target", CONFIG), ("draft", DRAFT)):
        (tmp_path / f"{name}.json").write_text(json.dumps(config))
    return ["--config", str(tmp_path / "target.json"), "--draft-config", str(tmp_path / "draft.json"), "--offline"]


def test_the_report_holds_plan_and_findings(recipe, tmp_path, capsys) -> None:
    file = tmp_path / "report.html"
    assert status_from_arguments(["plan", str(recipe), "--report", str(file)]) == ExitStatus.DONE
    plain = capsys.readouterr().out
    text = file.read_text(encoding="utf-8")
    assert text.startswith("<!DOCTYPE html>")
    assert "<h1>tiny</h1>" in text
    assert '<section id="findings">' in text
    assert status_from_arguments(["plan", str(recipe)]) == ExitStatus.DONE
    assert capsys.readouterr().out == plain
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_a_recipe_that_is_only_planned_has_a_report_beside_json(configs, tmp_path, capsys) -> None:
    file = tmp_path / "report.html"
    recipe = H100.with_name("llama70b-h200-eagle3.yaml")  # no version builds its drafter yet
    arguments = ["plan", str(recipe), *configs[:2], "--offline", "--json", "--report", str(file)]
    assert status_from_arguments(arguments) == ExitStatus.DONE
    shown = json.loads(capsys.readouterr().out)
    text = file.read_text(encoding="utf-8")
    speedup = shown["prediction"]["batches"][0]["speedup"]
    assert f"{speedup['mid']:.2f} times" in text
    assert f"interval of {speedup['low']:.2f} to {speedup['high']:.2f}" in text
    assert "This version does not build it: SPC301" in text
    assert "The doctor compares checkpoints" in text


def test_what_does_not_fit_has_a_report_all_the_same(tmp_path, capsys) -> None:
    file = tmp_path / "report.html"
    huge = ["--set", "limits.max_batch=256", "--set", "limits.max_input=7000"]
    recipe = H100.with_name("smollm2-135m-rtx.yaml")
    status = status_from_arguments(["plan", str(recipe), *huge, "--report", str(file), "--json"])
    error = json.loads(capsys.readouterr().out)["error"]
    assert (status, error["code"]) == (ExitStatus.USER_INPUT, "SPC305")
    assert "It does not fit" in file.read_text(encoding="utf-8")


def test_a_failed_gate_leaves_the_report(configs, tmp_path) -> None:
    file = tmp_path / "report.html"
    arguments = ["plan", str(H100), *configs, "--set", "require.min_speedup=9", "--report", str(file)]
    assert status_from_arguments(arguments) == ExitStatus.GATE
    assert file.is_file()


def test_the_report_of_a_bundle_without_drafts_says_so(recipe, tmp_path) -> None:
    arguments = ["plan", str(recipe), "--set", "gamma=0", "--set", "gpu=l4", "--set", "target.scheme=f16"]
    assert status_from_arguments([*arguments, "--report", str(tmp_path / "r.html")]) == ExitStatus.DONE
    assert "Nothing is drafted" in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_a_pipe_is_written_to_and_a_link_keeps_its_place(recipe, tmp_path) -> None:
    pipe, link = tmp_path / "pipe", tmp_path / "link.html"
    os.mkfifo(pipe)
    link.symlink_to("report.html")
    reader = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    try:
        write_text(pipe, "text")
        assert os.read(reader, 99) == b"text"
    finally:
        os.close(reader)
    assert pipe.is_fifo()
    assert status_from_arguments(["plan", str(recipe), "--report", str(link)]) == ExitStatus.DONE
    assert link.is_symlink()
    assert (tmp_path / "report.html").is_file()


def test_an_empty_name_is_no_file(recipe, capsys) -> None:
    assert status_from_arguments(["plan", str(recipe), "--report", ""]) == ExitStatus.ENVIRONMENT
    assert capsys.readouterr().err.startswith("SPC905")
