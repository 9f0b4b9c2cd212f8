"""A Hugging Face folder (config.json, safetensors, tokenizer files) as a source checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from specc.checkpoint.hf_config import facts_from_config, family_from_config, sizes_from_config
from specc.checkpoint.opened import OpenedCheckpoint, files_once
from specc.checkpoint.packed_headers import packed_headers
from specc.checkpoint.packed_tensor import float32_from_packed, quantized_from_packed
from specc.checkpoint.plain_tensor import float32_from_plain, unreadable_encoding
from specc.checkpoint.quantization_config import MODELOPT_FILE, quantization_from_config
from specc.checkpoint.safetensors_header import PLAIN_ENCODINGS
from specc.checkpoint.shards import INDEX_FILE, headers_from_folder
from specc.checkpoint.source import Float32Array, TensorHeader
from specc.checkpoint.tensor_set import WITHOUT_EFFECT
from specc.checkpoint.tensor_views import head_within_embedding, renamed_tensors, split_fused
from specc.checkpoint.token_facts import tokens_from_values
from specc.checkpoint.tokenizer_parts import TokenizerParts
from specc.checkpoint.values import values_from_json_file

CONFIG_FILE: Final = "config.json"
GENERATION_FILE: Final = "generation_config.json"
"""How ModelOpt quantized the checkpoint; TensorRT-LLM reads it."""


def checkpoint_from_folder(
    folder: Path, *, uri: str, revision: str | None, parts: TokenizerParts, template: str | None
) -> OpenedCheckpoint:
    """Return the checkpoint of a folder; only configurations and headers are read.

    Args:
        folder: absolute.
        uri: the reference of the recipe.
        revision: commit of a hub snapshot, or None.
        parts: the tokenizer, of this folder or of the recipe's choice.
        template: chat template of the recipe's choice, None for the tokenizer's.

    Raises:
        SpeccError: SPC2nn, whatever is wrong with the folder.
    """
    config = values_from_json_file(folder / CONFIG_FILE)
    stated = [config]
    if (folder / GENERATION_FILE).is_file():
        stated.insert(0, values_from_json_file(folder / GENERATION_FILE))
    family, _ = family_from_config(config)
    stored = renamed_tensors(headers_from_folder(folder), family)
    quantization = quantization_from_config(config, folder)
    packed = packed_headers(stored, quantization)
    headers = head_within_embedding(split_fused(packed.headers, family, sizes_from_config(config, family)))
    facts = facts_from_config(config, headers, parts.known_ids)
    for header in headers.values():
        if (
            header.packed is None
            and header.encoding not in PLAIN_ENCODINGS
            and not header.name.endswith(WITHOUT_EFFECT)
        ):
            raise unreadable_encoding(header.file, header.name, header.encoding, tuple(PLAIN_ENCODINGS))
    files = [values.path for values in reversed(stated)]
    if (folder / INDEX_FILE).is_file():
        files.append(folder / INDEX_FILE)
    if (folder / MODELOPT_FILE).is_file():
        files.append(folder / MODELOPT_FILE)
    files += [*parts.files, *(header.file for header in stored.values())]
    return OpenedCheckpoint(
        uri=uri,
        revision=revision,
        facts=facts,
        tokens=tokens_from_values(facts, parts, stated, template),
        headers=headers,
        files=files_once(files),
        float32_from_header=_float32_from_header,
        quantized_formats={
            name: header.packed.format
            for name, header in headers.items()
            if header.packed is not None and header.packed.format is not None
        },
        quantized_from_header=quantized_from_packed,
        cache_scales=packed.cache_scales,
        quantization_notes=packed.notes,
        vocabulary=parts.vocabulary,
        tokenizer_from_files=parts.tokenizer_from_files,
    )


def _float32_from_header(header: TensorHeader) -> Float32Array:
    return float32_from_plain(header) if header.packed is None else float32_from_packed(header)
