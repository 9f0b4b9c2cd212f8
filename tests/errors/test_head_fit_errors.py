"""A head that does not fit its target is refused by every command that would go on with it, as `specc check` does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from specc.cli.main import status_from_arguments
from specc.errors import ExitStatus
from tests.checked_pair import TARGET, eagle3_head
from tests.tiny_models import TinyLlama, llama_folder

RECIPE = """\
recipe: 1
name: pair
target: {model: target}
draft: {kind: eagle3, model: ./draft}
gamma: 4
gpu: h100-sxm-80gb
backend: {name: tensorrt-llm, flow: serve, version: "1.2.1"}
limits: {max_batch: 1, max_input: 128, max_output: 64}
"""
HEADS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "fc.weight reads 1344 numbers": ("SPC339", lambda folder: eagle3_head(folder, width=448)),
    "[15] entries": ("SPC340", lambda folder: eagle3_head(folder, d2t=range(15))),
    "kind: eagle3": ("SPC337", lambda folder: llama_folder(folder, TinyLlama(stored="bf16"))),
}
COMMANDS = (
    ("check",),
    ("plan",),
    ("build", "--stop-after", "plan"),
    ("build", "--stop-after", "layout"),
    ("build",),
    ("export", "--to", "vllm"),
)


def recipe_in(folder: Path) -> Path:
    llama_folder(folder / "target", replace(TARGET, stored="bf16"))
    (folder / "r.yaml").write_text(RECIPE)
    return folder / "r.yaml"


def test_a_head_that_is_given_as_a_model_is_refused_as_a_head(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = recipe_in(tmp_path)
    recipe.write_text(RECIPE.replace("kind: eagle3", "kind: model"))
    eagle3_head(tmp_path / "draft")
    for command, *options in COMMANDS:
        out = ["--out", str(tmp_path / "out")] if command == "build" else []
        assert status_from_arguments([command, str(recipe), *options, *out]) == ExitStatus.USER_INPUT
        shown = capsys.readouterr()
        assert "SPC337" in shown.err + shown.out
        assert "This is an EAGLE-3 head" in shown.err + shown.out
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("got", HEADS)
def test_a_head_that_does_not_fit_is_refused_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], got: str
) -> None:
    recipe, (code, write) = recipe_in(tmp_path), HEADS[got]
    write(tmp_path / "draft")
    monkeypatch.setenv("SPECC_CACHE", str(tmp_path / "cache"))
    for command, *options in COMMANDS:
        out = ["--out", str(tmp_path / "out")] if command == "build" else []
        assert status_from_arguments([command, str(recipe), *options, *out]) == ExitStatus.USER_INPUT
        shown = capsys.readouterr()
        assert code in shown.err + shown.out
        assert got in shown.err + shown.out
        if command != "check":
            assert shown.err.startswith(f"{code} {recipe}:4 draft.model\n")
            assert "Fix: " in shown.err
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "cache" / "objects").exists()


def test_a_head_that_fits_is_planned_and_one_without_taps_is_left_to_the_server(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = recipe_in(tmp_path)
    eagle3_head(tmp_path / "draft")
    assert status_from_arguments(["plan", str(recipe)]) == ExitStatus.DONE
    eagle3_head(tmp_path / "draft", config={"target_layer_ids": None})
    assert status_from_arguments(["plan", str(recipe)]) == ExitStatus.DONE
    assert status_from_arguments(["check", str(recipe)]) == ExitStatus.USER_INPUT
    assert "SPC338" in capsys.readouterr().out
