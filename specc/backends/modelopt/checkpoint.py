"""A whole checkpoint out of a source's own files: changed shards, linked shards, index and configurations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from specc.backends.backend import CheckpointPart
from specc.backends.modelopt.algorithms import algorithm_from_format
from specc.backends.modelopt.config import QUANT_CONFIG_FILE, model_config, quant_config
from specc.backends.modelopt.shards import (
    INDEX_FILE,
    Weights,
    excluded_modules,
    is_changed,
    shard_bytes,
    shards_of,
    write_index,
)
from specc.checkpoint.source import SourceCheckpoint
from specc.checkpoint.values import values_from_json_file
from specc.lower.place import Place
from specc.plan.trtllm_plan import LayerQuantization

CONFIG_FILE: Final = "config.json"
FOLDING: Final = ("awq", "smoothquant")
"""Methods whose factors of channels go into what stands before a layer; AWQ's own factors are 1 then."""


def weights_from_plan(rule: LayerQuantization, *, fp8_cache: bool) -> Weights:
    """Return which tensors a plan's quantization makes."""
    return Weights(
        algorithm=algorithm_from_format(rule.format),
        cache_scales=rule.calibrated and fp8_cache,
        folded=rule.method in FOLDING,
    )


def changed_parts(weights: Weights, source: SourceCheckpoint) -> tuple[CheckpointPart, ...]:
    """Return the shards that are written anew, each a part of its own."""
    changed = (shard for shard in shards_of(source.files) if is_changed(weights, shard))
    return tuple(CheckpointPart(shard.name, shard_bytes(weights, shard)) for shard in changed)


def write_descriptions(weights: Weights, source: SourceCheckpoint, folder: Path, *, fp8_cache: bool) -> None:
    """Write the index and both configurations; no weight is read."""
    shards = shards_of(source.files)
    excluded = excluded_modules(shards)
    write_index(weights, shards, folder)
    stated = values_from_json_file(next(file for file in source.files if file.name == CONFIG_FILE)).mapping
    contents = {
        CONFIG_FILE: model_config(dict(stated), weights.algorithm, excluded, fp8_cache=fp8_cache),
        QUANT_CONFIG_FILE: quant_config(weights.algorithm, excluded, fp8_cache=fp8_cache),
    }
    for name, content in contents.items():
        (folder / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def place_unchanged(weights: Weights, source: SourceCheckpoint, folder: Path, place: Place) -> None:
    """Place the shards in which nothing changes, the tokenizer and all else that is not written anew."""
    changed = {shard for shard in shards_of(source.files) if is_changed(weights, shard)}
    for file in source.files:
        if file not in changed and file.name not in (CONFIG_FILE, INDEX_FILE, QUANT_CONFIG_FILE):
            place(file, folder / file.name)
