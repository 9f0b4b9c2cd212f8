"""A recipe that names an EAGLE-3 head as what it is: its kind, its tap layers, its width."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.checked_pair import RECIPE, checked, config_folder, eagle3_head, found
from tests.tiny_models import TinyLlama

EAGLE3 = RECIPE.replace("kind: model", "kind: eagle3")
TAPPED = EAGLE3.replace("kind: eagle3", "kind: eagle3, taps: [1, 3, 5]")


def errors(folder: Path, text: str) -> set[str]:
    return {finding.code for finding in checked(folder, text).of("error")}


def test_a_head_that_fits_is_only_not_built(tmp_path: Path) -> None:
    eagle3_head(tmp_path / "draft")
    assert errors(tmp_path, EAGLE3) == {"SPC301"}


@pytest.mark.parametrize(("text", "missing"), [(EAGLE3, True), (TAPPED, False)], ids=["absent", "in the recipe"])
def test_the_recipe_can_declare_the_layers(tmp_path: Path, text: str, missing: bool) -> None:
    eagle3_head(tmp_path / "draft", config={"target_layer_ids": None})
    assert ("SPC338" in errors(tmp_path, text)) is missing


def test_as_many_layers_as_the_projection_reads(tmp_path: Path) -> None:
    eagle3_head(tmp_path / "draft")
    assert "SPC339" in errors(tmp_path, TAPPED.replace("[1, 3, 5]", "[1, 3]"))


def test_a_model_of_its_own_is_no_head(tmp_path: Path) -> None:
    config_folder(tmp_path / "draft", TinyLlama())
    finding = found(checked(tmp_path, EAGLE3), "SPC337")
    assert "is a model of its own" in finding.message
    assert finding.fix is not None
    assert "kind: model" in finding.fix.text


@pytest.mark.parametrize(
    ("keys", "codes"),
    [
        ({"draft_vocab_size": 16}, {"SPC338"}),
        ({"dflash_config": {"mask_token_id": 3}}, {"SPC337", "SPC338"}),
        ({}, set()),
    ],
)
def test_a_head_whose_weights_are_not_read_is_told_by_its_configuration(
    tmp_path: Path, keys: dict[str, object], codes: set[str]
) -> None:
    """As EAGLE's authors publish theirs: an architecture called Llama beside pytorch_model.bin."""
    config_folder(tmp_path / "draft", TinyLlama(), **keys)
    (tmp_path / "draft" / "pytorch_model.bin").write_bytes(b"")
    report = checked(tmp_path, EAGLE3)
    assert {finding.code for finding in report.of("error")} & {"SPC337", "SPC338"} == codes
    (note,) = [f for f in report.findings if f.code == "SPC349" and "draft" in f.message]
    assert note.message.endswith("its weights are not in safetensors files.")
