"""`specc export`: from a recipe and from a bundle, to the output or a file, with losses beside it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from specc.cli.main import status_from_arguments
from specc.errors import ExitStatus
from specc.pipeline import BuildRequest, build
from specc.progress import silent
from tests.tiny_models import TinyLlama, llama_folder

RECIPE = """\
recipe: 1
name: tiny
target: {model: model}
draft: {kind: ngram, min_ngram: 2, max_ngram: 3}
gamma: 2
gpu: cpu
certify: off
limits: {max_batch: 1, max_input: 32, max_output: 16, prefill_chunk: 8}
"""


def test_recipe_and_bundle_give_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    llama_folder(tmp_path / "model", TinyLlama(num_hidden_layers=1))
    recipe = tmp_path / "r.yaml"
    recipe.write_text(RECIPE)
    assert status_from_arguments(["export", str(recipe), "--to", "vllm"]) == ExitStatus.DONE
    printed = capsys.readouterr()
    assert '"prompt_lookup_min": 2' in printed.out
    assert "lost: coupled: " in printed.err
    request = BuildRequest(recipe, (), tmp_path / "build", "publish", False, None, True, False)
    bundle = build(request, silent, on_wait=lambda _: None).path
    file = tmp_path / "vllm.sh"
    arguments = ["export", str(bundle), "--to", "vllm", "--output", str(file), "--json"]
    assert status_from_arguments(arguments) == ExitStatus.DONE
    shown = json.loads(capsys.readouterr().out)
    assert file.read_text() == shown["text"] == printed.out
    assert [sentence.split(":")[0] for sentence in shown["lost"]] == ["coupled", "switch-off", "return"]
    assert status_from_arguments(["export", str(bundle), "--to", "tgi"]) == ExitStatus.USER_INPUT
    assert capsys.readouterr().err.startswith("SPC901 --to")
