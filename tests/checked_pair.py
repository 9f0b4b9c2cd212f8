"""Folders with configurations, tokenizers and small heads, and what the doctor finds of a pair of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file
from tokenizers import Tokenizer

from specc.doctor.check import Report, report_from_file
from specc.doctor.finding import Finding
from tests.tiny_models import CHAT_TEMPLATE, TinyLlama, byte_tokenizer, config_from_sizes

TARGET = TinyLlama(hidden_size=512, intermediate_size=768, num_hidden_layers=8, num_attention_heads=8,
                   num_key_value_heads=4, head_dim=64)  # fmt: skip
DRAFT = TinyLlama()
LLAMA_70B: dict[str, Any] = {
    "hidden_size": 8192, "intermediate_size": 28672, "num_hidden_layers": 80, "num_attention_heads": 64,
    "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 128256, "max_position_embeddings": 131072,
}  # fmt: skip
RECIPE = """\
# the pair
recipe: 1
name: pair
target: {model: target}
draft: {kind: model, model: draft}
gamma: 4  # drafts
gpu: cpu
limits: {max_batch: 1, max_input: 256, max_output: 128}
"""
TRTLLM = RECIPE.replace("gpu: cpu", "gpu: {name: h100-sxm-80gb, count: 4}\nbackend: {name: tensorrt-llm}")
EAGLE3 = {"architectures": ["LlamaForCausalLMEagle3"], "draft_vocab_size": 16, "target_layer_ids": [1, 3, 5]}


def config_folder(
    folder: Path, sizes: TinyLlama, *, tokenizer: Tokenizer | None = None, template: str = CHAT_TEMPLATE, **keys: Any
) -> Path:
    """Write a model's configuration and tokenizer, without weights; `keys` replace those of config.json."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {key: value for key, value in {**config_from_sizes(sizes), **keys}.items() if value is not None}
    (folder / "config.json").write_text(json.dumps(config))
    (tokenizer or byte_tokenizer()).save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}))
    return folder


def eagle3_head(folder: Path, *, width: int = 512, d2t: Any = None, config: dict[str, Any] | None = None) -> Path:
    """Write an EAGLE-3 head of 16 draft ids for a target of hidden size 512 and three taps."""
    config_folder(folder, DRAFT, **{**EAGLE3, **(config or {})})
    tensors = {
        "fc.weight": np.zeros((DRAFT.hidden_size, 3 * width), np.float32),
        "midlayer.hidden_norm.weight": np.ones(DRAFT.hidden_size, np.float32),
        "lm_head.weight": np.zeros((16, DRAFT.hidden_size), np.float32),
        "d2t": np.arange(16, dtype=np.int64) if d2t is None else np.asarray(d2t, np.int64),
    }
    save_file(tensors, folder / "model.safetensors")
    return folder


def checked(folder: Path, text: str = RECIPE, *overrides: str) -> Report:
    """Check a recipe; models that are not there yet are written first: configurations alone."""
    for name, sizes in (("target", TARGET), ("draft", DRAFT)):
        if not (folder / name).exists():
            config_folder(folder / name, sizes)
    (folder / "r.yaml").write_text(text)
    return report_from_file(folder / "r.yaml", overrides, offline=True)


def found(report: Report, code: str) -> Finding:
    """Return the one finding of a code."""
    (finding,) = [finding for finding in report.findings if finding.code == code]
    return finding


def values(finding: Finding) -> list[str]:
    """Return the values of a finding, without their places."""
    return [value for value, _ in finding.evidence]
