"""A checkpoint in the shape of Llama 3 70B that takes no room: real headers, and files made long by truncating."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

from specc.checkpoint.tensor_set import shapes_from_facts
from tests.published_speedups import llama_like
from tests.tiny_models import TinyLlama, byte_tokenizer, config_from_sizes

SIZES = TinyLlama(128256, 8192, 28672, 80, 64, 8, 128, 131072, 500000.0, stored="bf16")
FACTS = replace(
    llama_like(SIZES.hidden_size, SIZES.intermediate_size, SIZES.num_hidden_layers, (64, 8), SIZES.vocab_size),
    tie_word_embeddings=False,
)
SHARD_BYTES = 4_700_000_000


def sparse_llama70b(folder: Path) -> Path:
    """Write config, tokenizer, index and some thirty shards of 141 GB of zeros in all, none of them on the disk."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config_from_sizes(SIZES)))
    byte_tokenizer().save(str(folder / "tokenizer.json"))
    shards: list[dict[str, tuple[int, ...]]] = [{}]
    size = 0
    for name, shape in shapes_from_facts(FACTS):
        nbytes = 2 * math.prod(shape)
        if size + nbytes > SHARD_BYTES:
            shards.append({})
            size = 0
        shards[-1][name] = shape
        size += nbytes
    weight_map = {}
    for i, shard in enumerate(shards, 1):
        file = f"model-{i:05}-of-{len(shards):05}.safetensors"
        _write_shard(folder / file, shard)
        weight_map |= dict.fromkeys(shard, file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    return folder


def _write_shard(path: Path, shapes: dict[str, tuple[int, ...]]) -> None:
    entries, offset = {}, 0
    for name, shape in shapes.items():
        end = offset + 2 * math.prod(shape)
        entries[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [offset, end]}
        offset = end
    header = json.dumps(entries).encode()
    header += b" " * (-len(header) % 8)
    with path.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + offset)
