"""Texts of calibration that a recipe names: looked for while planning, and named where nothing reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from specc.cli.main import status_from_arguments
from tests.deployed import recipe_in

AWQ = "target.scheme={name: w8a16, method: awq}"
CPU = ("backend=onnxruntime", "gpu=cpu", "draft=ngram")


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recipe_in(tmp_path_factory.mktemp("pair"))


def planned(recipe: Path, *overrides: str) -> int:
    stated = [word for override in overrides for word in ("--set", override)]
    return status_from_arguments(["plan", str(recipe), "--offline", *stated])


@pytest.mark.parametrize("role", ["target", "draft"])
def test_a_file_that_is_not_there_ends_the_plan(recipe: Path, capsys: pytest.CaptureFixture[str], role: str) -> None:
    assert planned(recipe, f"{role}.calibration=nowhere.txt") == 2
    shown = capsys.readouterr().err
    assert shown.startswith("SPC410 ")
    assert "nowhere.txt" in shown
    assert "no such file" in shown


@pytest.mark.parametrize(
    ("overrides", "read"),
    [
        ((*CPU, AWQ), True),
        ((*CPU, "target.scheme=w8a16"), False),
        (("target.scheme=fp8",), False),
        (("target.scheme={name: fp8, granularity: tensor}",), True),
        (("backend.flow=engine", "target.scheme=fp8"), False),
    ],
)
def test_texts_that_nothing_reads_are_named(
    recipe: Path, capsys: pytest.CaptureFixture[str], overrides: tuple[str, ...], read: bool
) -> None:
    (recipe.parent / "texts.txt").write_text("a text\n")
    assert planned(recipe, *overrides, "target.calibration=texts.txt") == 0
    assert ("target.calibration is not read" not in capsys.readouterr().out) == read
