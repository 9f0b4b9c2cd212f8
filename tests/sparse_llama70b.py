"""Checkpoints in the shape of Llama 3 that take no room: real headers, and files made long by truncating."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

from specc.checkpoint.facts import ModelFacts
from specc.checkpoint.tensor_set import shapes_from_facts
from tests.published_speedups import llama_like
from tests.tiny_models import TinyLlama, byte_tokenizer, config_from_sizes

SIZES = TinyLlama(128256, 8192, 28672, 80, 64, 8, 128, 131072, 500000.0, stored="bf16")
SIZES_1B = TinyLlama(128256, 2048, 8192, 16, 32, 8, 64, 131072, 500000.0, tie_word_embeddings=True, stored="bf16")
ROPE = {
    "rope_type": "llama3",
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
SHARD_BYTES = 4_700_000_000
BYTES = {"BF16": 2, "F8_E4M3": 1, "F32": 4}
Entry = tuple[str, str, tuple[int, ...]]


def facts_of(sizes: TinyLlama) -> ModelFacts:
    heads = sizes.num_attention_heads, sizes.num_key_value_heads
    facts = llama_like(sizes.hidden_size, sizes.intermediate_size, sizes.num_hidden_layers, heads, sizes.vocab_size)
    return replace(facts, tie_word_embeddings=sizes.tie_word_embeddings, head_dim=sizes.head_dim)


FACTS = facts_of(SIZES)


def sparse_llama70b(folder: Path) -> Path:
    """Write config, tokenizer, index and some thirty shards of 141 GB of zeros in all, none of them on the disk."""
    return sparse_llama(folder, SIZES)


def sparse_llama(folder: Path, sizes: TinyLlama, *, fp8: bool = False) -> Path:
    """Write a checkpoint of these sizes; with `fp8` as ModelOpt quantizes it, scales of caches included."""
    folder.mkdir(parents=True)
    config = config_from_sizes(sizes) | {"rope_scaling": ROPE | {"factor": 32.0 if sizes is SIZES_1B else 8.0}}
    entries: list[Entry] = [(name, "BF16", shape) for name, shape in shapes_from_facts(facts_of(sizes))]
    if fp8:
        # Without caches, as TensorRT-LLM's table of reference accuracies lists Llama 3.3 70B in FP8.
        algorithm = {"quant_algo": "FP8", "kv_cache_quant_algo": None, "exclude_modules": ["lm_head"]}
        (folder / "hf_quant_config.json").write_text(
            json.dumps({"producer": {"name": "modelopt", "version": "0.37.0"}, "quantization": algorithm})
        )
        entries = [entry for plain in entries for entry in _modelopt(*plain)]
    (folder / "config.json").write_text(json.dumps(config))
    byte_tokenizer().save(str(folder / "tokenizer.json"))
    weight_map: dict[str, str] = {}
    shards = _shards(entries)
    for i, shard in enumerate(shards, 1):
        file = f"model-{i:05}-of-{len(shards):05}.safetensors"
        _write_shard(folder / file, shard)
        weight_map |= {name: file for name, _, _ in shard}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    return folder


def _modelopt(name: str, dtype: str, shape: tuple[int, ...]) -> list[Entry]:
    layer = name.removesuffix(".weight")
    if not layer.endswith("_proj"):
        return [(name, dtype, shape)]
    scales = [(f"{layer}.weight_scale", "F32", ()), (f"{layer}.input_scale", "F32", ())]
    caches = [(f"{layer}.{layer[-6]}_scale", "F32", ())] if layer.endswith(("k_proj", "v_proj")) else []
    return [(name, "F8_E4M3", shape), *scales, *caches]


def _shards(entries: list[Entry]) -> list[list[Entry]]:
    shards: list[list[Entry]] = [[]]
    size = 0
    for name, dtype, shape in entries:
        nbytes = BYTES[dtype] * math.prod(shape)
        if size + nbytes > SHARD_BYTES:
            shards.append([])
            size = 0
        shards[-1].append((name, dtype, shape))
        size += nbytes
    return shards


def _write_shard(path: Path, entries: list[Entry]) -> None:
    listed, offset = {}, 0
    for name, dtype, shape in entries:
        end = offset + BYTES[dtype] * math.prod(shape)
        listed[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [offset, end]}
        offset = end
    header = json.dumps(listed).encode()
    header += b" " * (-len(header) % 8)
    with path.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + offset)
