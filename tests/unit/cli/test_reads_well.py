"""What a person reads on a terminal of 80 columns: plans and comparisons of shipped recipes, codes, errors."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from specc.cli.main import status_from_arguments
from specc.cli.show import WIDTH
from specc.errors import CODES
from tests.house.test_recipes import CONFIGS, MODELS, RECIPES
from tests.house.tree import ROOT

PLANNED = {name: models for name, models in MODELS.items() if models[0] is not None}


def arguments_of(name: str) -> list[str]:
    target, draft = PLANNED[name]
    given = ["--config", str(CONFIGS / f"{target}.json"), "--offline"]
    return ["plan", str(RECIPES[name]), *given, *(["--draft-config", str(CONFIGS / f"{draft}.json")] if draft else [])]


def reads_well(text: str) -> list[str]:
    """Return the lines; none is wider than the terminal, and none ends in blanks that would wrap on a narrower one."""
    lines = text.splitlines()
    assert [line for line in lines if len(line) > WIDTH or line != line.rstrip()] == []
    return lines


@pytest.mark.parametrize("name", PLANNED)
def test_plans_of_shipped_recipes(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_from_arguments(arguments_of(name)) == 0
    lines = reads_well(capsys.readouterr().out)
    assert any(re.match(r"one step +AR [\d.]+ ms; verifying \d drafts? [\d.]+ ms, drafting etc\. [\d.]+ ms", line)
               for line in lines)  # fmt: skip
    table = [line for line in lines if re.match(r"\d+ +\d+ +\d\.\d\d", line)]
    assert len(table) >= 7
    for line in table:  # no factor without an interval, but of AR decoding itself
        gamma, speedup = line.split()[1:3]
        assert gamma == "0" or speedup == "1.00" or re.match(r"\d\.\d\d-\d+\.\d\d$", line.split()[3]), line


@pytest.mark.parametrize("axis", ["gpus=h100-sxm-80gb,b300,l40s", "schemes=fp8,bf16", "drafts=model,mtp,none",
                                  "gamma=1..12"])  # fmt: skip
def test_comparisons(axis: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_from_arguments([*arguments_of("llama70b-h100"), "--compare", axis]) == 0
    lines = reads_well(capsys.readouterr().out)
    pays = lines[0].split("  ")
    assert [word.strip() for word in pays if word.strip()][-2:] == ["pays", "builds"]
    if axis.startswith("drafts"):
        # beside 4096 cached tokens a request, caches are most of what a step reads at any batch: no end
        assert re.search(r" 1\+ +yes$", lines[1])
        # what an MTP layer takes is not known, and a draft without a price would gain four times
        assert "not predicted" in lines[2]
        assert "Not predicted: the sizes of what drafts under kind mtp are not read" in " ".join(lines)


def test_an_error_of_a_comparison_names_the_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_from_arguments([*arguments_of("llama70b-h100"), "--compare", "gpus=4090"]) == 2
    lines = reads_well(capsys.readouterr().err)
    assert lines[:2] == ["SPC107 --compare gpus=4090", "  unknown GPU `4090`"]
    assert lines[-1] == "  Fix: did you mean rtx-4090?"


def test_batches_beyond_the_memory_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_from_arguments(arguments_of("llama70b-h200-tensorrt")) == 0
    text = capsys.readouterr().out
    (most,) = re.findall(r"at most +batch (\d+) at this length", text)
    assert f"Batches above {most} do not fit with texts of full length." in text
    assert status_from_arguments(arguments_of("llama70b-h100")) == 0
    assert "Batches above" not in capsys.readouterr().out  # 301 rows fit, and the table ends at 64


def test_where_drafts_lose_their_price_and_what_would_gain_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_from_arguments(["plan", str(ROOT / "recipes" / "smollm2-135m-rtx.yaml")]) == 0
    text = " ".join(capsys.readouterr().out.split())
    found = re.search(r"best gamma 0 at batch 1: AR decoding is the fastest; gamma (\d): gains above an acceptance of "
                      r"(0\.\d\d) .* one step AR ([\d.]+) ms; verifying (\d) drafts ([\d.]+) ms, drafting etc\. "
                      r"([\d.]+) ms", text)  # fmt: skip
    assert found is not None
    gamma, even, alone, drafts, verify, rest = map(float, found.groups())
    assert gamma == drafts
    # at break-even a round yields as many tokens as it costs AR steps
    assert (1 - even ** (gamma + 1)) / (1 - even) == pytest.approx((verify + rest) / alone, rel=0.02)


@pytest.mark.parametrize("code", CODES)
def test_explanations(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_from_arguments(["explain", code]) == 0
    lines = reads_well(capsys.readouterr().out)
    assert lines[0].startswith(f"{code}: ")
    assert " ".join(" ".join(lines).split()) == (
        f"{code}: {CODES[code].title} {CODES[code].explanation} Exit status {int(CODES[code].exit_status)}."
    )


def test_a_model_that_was_never_fetched_is_said_in_specc_s_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    assert status_from_arguments(["plan", str(RECIPES["qwen3-8b-rtx5090"]), "--offline"]) == 4
    lines = reads_well(capsys.readouterr().err)
    assert lines[1] == "  not in the local cache, and --offline is on"
    assert "--config" in " ".join(lines)
