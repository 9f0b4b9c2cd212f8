"""Builds of a tiny recipe for TensorRT, in a store of the test's own, with kernels that do nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from specc.errors import SpeccError
from specc.pipeline import BuildRequest, build
from specc.progress import silent
from tests.plugin_launch import write_empty_kernels
from tests.tiny_models import TinyLlama, llama_folder

RECIPE = """\
recipe: 1
name: tiny
target: {model: model, scheme: f16}
draft: ngram
gamma: 4
gpu: h100-sxm-80gb
backend: {name: tensorrt}
limits: {max_batch: 2, max_input: 64, max_output: 32, prefill_chunk: 16}
certify: off
"""


def recipe_in(folder: Path) -> Path:
    """Write two models, kernels and the recipe; return the recipe."""
    llama_folder(folder / "model", TinyLlama(stored="f16", num_hidden_layers=1))
    llama_folder(folder / "small", TinyLlama(stored="f16", num_hidden_layers=1, seed=1))
    (folder / "tiny.yaml").write_text(RECIPE)
    write_empty_kernels(folder / "kernels", "8.0", "8.9", "9.0", "10.0")
    return folder / "tiny.yaml"


def built(request: BuildRequest, *overrides: str, **changes: Any) -> Path:
    return build(replace(request, overrides=overrides, **changes), silent, lambda _: None).path


def refused(request: BuildRequest, *overrides: str, **changes: Any) -> SpeccError:
    with pytest.raises(SpeccError) as caught:
        built(request, *overrides, **changes)
    return caught.value


def told(folder: Path, role: str = "target") -> dict[str, Any]:
    """Return what shaped an engine of the double."""
    found: dict[str, Any] = json.loads((folder / f"{role}.engine").read_text())
    return found


def objects(store: Path) -> list[str]:
    """Return what a store holds, in words, the tokenizer's files left out."""
    records = (store / "objects").glob("*/*/object.json")
    found = sorted(json.loads(record.read_text())["describe"] for record in records)
    return [name for name in found if not name.startswith("tokenizer")]
