"""Heads that TensorRT-LLM runs (dflash, dspark, pard), named by their folder: held against the target."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from specc.doctor.finding import Finding
from tests.checked_pair import DRAFT, TARGET, checked, found
from tests.tiny_models import TinyLlama, config_from_sizes, llama_folder

VERSION = 'gpu: h100-sxm-80gb\nbackend: {name: tensorrt-llm, version: "1.3.0rc29"}\n'
TEXT = "recipe: 1\nname: pair\ntarget: {model: target}\ndraft: {kind: KIND, model: ./draft}\ngamma: 4\n" + VERSION
HIDDEN, ROWS = TARGET.hidden_size, TARGET.vocab_size
FC = HIDDEN, 3 * HIDDEN
BLOCK = {"target_layer_ids": [1, 3, 5], "mask_token_id": 260}


def block_head(
    folder: Path, *, shape: tuple[int, int] = (HIDDEN, 3 * HIDDEN), config: Any = None, **tensors: Any
) -> None:
    """Write a DFlash head as it is published: no embedding, no lm_head, declarations in a nested mapping."""
    folder.mkdir(parents=True, exist_ok=True)
    stated = config_from_sizes(TARGET) | {"architectures": ["DFlashDraftModel"], "dflash_config": BLOCK}
    (folder / "config.json").write_text(json.dumps(stated | (config or {})))
    ones = np.ones(HIDDEN, np.float32)
    own = {"fc.weight": np.zeros(shape, np.float32), "hidden_norm.weight": ones, "norm.weight": ones}
    save_file(own | {name.replace("__", "."): t for name, t in tensors.items()}, folder / "model.safetensors")


def errors(folder: Path, kind: str, more: str = "") -> list[Finding]:
    report = checked(folder, TEXT.replace("KIND", kind).replace("./draft", f"./draft{more}"))
    return [finding for finding in report.of("error") if finding.code.startswith(("SPC33", "SPC34", "SPC32"))]


def codes(folder: Path, kind: str, more: str = "") -> list[str]:
    return [finding.code for finding in errors(folder, kind, more)]


def table(rows: int) -> np.ndarray[Any, Any]:
    return np.zeros((rows, 8), np.float32)


def test_a_head_that_fits_its_target(tmp_path: Path) -> None:
    block_head(tmp_path / "draft")
    assert codes(tmp_path, "dflash") == []
    markov = {"markov_head__markov_w1__weight": table(ROWS), "markov_head__markov_w2__weight": table(ROWS)}
    block_head(tmp_path / "draft", **markov)
    assert codes(tmp_path, "dspark") == []
    report = checked(tmp_path, TEXT.replace("KIND", "dspark"))
    assert "SPC334" not in [finding.code for finding in report.findings]


@pytest.mark.parametrize(
    ("shape", "got"),
    [
        ((HIDDEN, 3 * 448), ["fc.weight reads 1344 numbers", "3 x 512 are there"]),
        ((HIDDEN, 5 * HIDDEN), ["fc.weight reads 2560 numbers", "3 x 512 are there"]),
        ((256, 3 * HIDDEN), ["fc.weight writes 256 numbers", "hidden_size 512"]),
    ],
)
def test_spc339_a_projection_of_another_width(tmp_path: Path, shape: tuple[int, int], got: list[str]) -> None:
    """C10."""
    block_head(tmp_path / "draft", shape=shape)
    (finding,) = errors(tmp_path, "dflash")
    assert (finding.code, [value for value, _ in finding.evidence]) == ("SPC339", got)
    assert finding.place == f"{tmp_path}/r.yaml:4 draft.model"


@pytest.mark.parametrize(
    ("kind", "tensors", "config", "got"),
    [
        ("dspark", {"markov_head__markov_w1__weight": table(200)}, {}, "200 rows of markov_head.markov_w1.weight"),
        ("dspark", {"markov_head__markov_w2__weight": table(300)}, {}, "300 rows of markov_head.markov_w2.weight"),
        ("dflash", {"embed_tokens__weight": table(100)}, {}, "100 rows of embed_tokens.weight"),
        ("dflash", {}, {"vocab_size": 1000}, "1000 ids"),
    ],
)
def test_spc340_tables_of_other_ids(tmp_path: Path, kind: str, tensors: Any, config: Any, got: str) -> None:
    block_head(tmp_path / "draft", config=config, **tensors)
    findings = [finding for finding in errors(tmp_path, kind) if finding.code == "SPC340"]
    assert [finding.evidence[0][0] for finding in findings] == [got]
    assert findings[0].evidence[1][0] == f"{ROWS} rows of embedding"


def test_a_map_of_its_own_ids_is_another_rules_matter(tmp_path: Path) -> None:
    mapped = {"lm_head__weight": table(16), "d2t": np.arange(16, dtype=np.int64)}
    block_head(tmp_path / "draft", config={"draft_vocab_size": 16}, **mapped)
    assert codes(tmp_path, "dflash") == []


def test_spc341_the_mask_token_of_the_recipe_comes_first(tmp_path: Path) -> None:
    block_head(tmp_path / "draft", config={"dflash_config": {"target_layer_ids": [1, 3, 5]}})
    (finding,) = errors(tmp_path, "dflash")
    assert (finding.code, finding.evidence[0][0]) == ("SPC341", "no mask_token_id")
    assert codes(tmp_path, "dflash", ", mask_token_id: 260") == []
    (finding,) = errors(tmp_path, "dflash", f", mask_token_id: {ROWS}")
    assert finding.evidence[0] == (f"mask_token_id {ROWS}", f"{tmp_path}/r.yaml:4 draft.mask_token_id")


def test_spc338_the_layers_must_be_declared(tmp_path: Path) -> None:
    block_head(tmp_path / "draft", config={"dflash_config": {"mask_token_id": 260}})
    assert codes(tmp_path, "dflash") == ["SPC338"]


def test_spc337_another_kind_than_the_recipe_says(tmp_path: Path) -> None:
    block_head(tmp_path / "draft")
    for kind in ("dspark", "pard", "eagle3"):
        finding = next(finding for finding in errors(tmp_path, kind) if finding.code == "SPC337")
        assert finding.fix is not None
        assert finding.fix.text == "draft.kind: dflash"
    llama_folder(tmp_path / "own" / "draft", DRAFT)
    finding = found(checked(tmp_path / "own", TEXT.replace("KIND", "dflash")), "SPC337")
    assert "is a model of its own" in finding.message


@pytest.mark.parametrize(
    ("token", "more", "refused"),
    [(None, "", True), (258, "", False), (264, "", True), (None, ", mask_token_id: 3", False)],
)
def test_spc341_a_parallel_draft_model_embeds_its_own_mask(
    tmp_path: Path, token: Any, more: str, refused: bool
) -> None:
    """PARD: a model of its own, whose configuration names the token `pard_token`."""
    llama_folder(tmp_path / "draft", TinyLlama(stored="bf16"))
    config = config_from_sizes(TinyLlama()) | ({} if token is None else {"pard_token": token})
    (tmp_path / "draft" / "config.json").write_text(json.dumps(config))
    assert codes(tmp_path, "pard", more) == ["SPC341"] * refused


def test_a_head_on_the_hub_is_not_fetched(tmp_path: Path) -> None:
    report = checked(tmp_path, TEXT.replace("KIND", "dflash").replace("./draft", "owner/head"))
    assert not {finding.code for finding in report.findings} & {"SPC337", "SPC338", "SPC201", "SPC202"}
