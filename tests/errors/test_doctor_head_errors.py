"""What the doctor finds of trained heads: severity, place, the two values with where they came from, and the fix."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.checked_pair import (
    DRAFT,
    checked,
    config_folder,
    eagle3_head,
    found,
    values,
)
from tests.tiny_models import TinyLlama

FP8_TARGET = TinyLlama(hidden_size=128, intermediate_size=128, head_dim=32, stored="bf16")


def test_spc337_and_spc338_an_eagle3_head_without_tap_layers(tmp_path: Path) -> None:
    """C3, C4: tensor names tell what it is; which layers it hears is not guessed."""
    eagle3_head(tmp_path / "draft", config={"target_layer_ids": None})
    report = checked(tmp_path)
    head, taps = found(report, "SPC337"), found(report, "SPC338")
    assert values(head) == ["kind: model", "`midlayer.hidden_norm.weight`"]
    assert "This is an EAGLE-3 head" in head.message
    assert values(taps) == ["EAGLE-3", "no list of tap layers"]
    assert taps.fix is not None
    assert '"target_layer_ids": [' in taps.fix.text


def test_a_head_that_fits_is_only_no_model(tmp_path: Path) -> None:
    eagle3_head(tmp_path / "draft")
    codes = {finding.code for finding in checked(tmp_path).of("error")}
    assert codes == {"SPC337"}


def test_spc339_a_head_for_a_target_of_another_width(tmp_path: Path) -> None:
    """C10."""
    eagle3_head(tmp_path / "draft", width=448)
    finding = found(checked(tmp_path), "SPC339")
    assert (finding.severity, values(finding)) == ("error", ["fc.weight reads 1344 numbers", "3 x 512 are there"])


@pytest.mark.parametrize(
    ("d2t", "config", "first"),
    [
        (None, {"draft_vocab_size": None}, "264"),
        (None, {"draft_vocab_size": 32}, "32"),
        (range(15), {}, "[15] entries"),
        ([*range(15), 300], {}, "1 ids lead outside, as 15 to 315"),
        ([-1, *range(15)], {}, "1 ids lead outside, as 0 to -1"),
        ([1, *[0] * 15], {}, "1 ids lead to one that another leads to"),
    ],
    ids=["absent", "conflict", "length", "past the end", "negative", "twice"],
)
def test_spc340_a_draft_vocabulary_that_contradicts_itself(tmp_path: Path, d2t, config, first: str) -> None:
    """C17, A14."""
    eagle3_head(tmp_path / "draft", d2t=d2t, config=config)
    finding = found(checked(tmp_path), "SPC340")
    assert finding.severity == "error"
    assert values(finding)[0] == first


@pytest.mark.parametrize("stated", [None, 9999, -1, "151669"])
def test_spc341_a_block_drafter_needs_a_mask_token(tmp_path: Path, stated) -> None:
    block = {"architectures": ["DFlashDraftModel"], "dflash_config": {"target_layer_ids": [1, 3]}}
    config_folder(tmp_path / "draft", DRAFT, mask_token_id=stated, **block)
    finding = found(checked(tmp_path), "SPC341")
    assert values(finding)[1] == "264 rows of embedding"
    config_folder(tmp_path / "draft", DRAFT, mask_token_id=260, **block)
    assert "SPC341" not in [f.code for f in checked(tmp_path).findings]
