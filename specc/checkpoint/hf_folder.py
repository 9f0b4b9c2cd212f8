"""A Hugging Face folder (config.json, safetensors, tokenizer files) as a source checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from specc.checkpoint.hf_config import facts_from_config, family_from_config, sizes_from_config
from specc.checkpoint.opened import OpenedCheckpoint, files_once
from specc.checkpoint.plain_tensor import float32_from_plain
from specc.checkpoint.safetensors_header import PLAIN_ENCODINGS
from specc.checkpoint.shards import INDEX_FILE, headers_from_folder
from specc.checkpoint.tensor_views import renamed_tensors, split_fused
from specc.checkpoint.token_facts import tokens_from_values
from specc.checkpoint.tokenizer_parts import TokenizerParts
from specc.checkpoint.values import values_from_json_file

CONFIG_FILE: Final = "config.json"
GENERATION_FILE: Final = "generation_config.json"


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
    headers = renamed_tensors(headers_from_folder(folder), family)
    # quantized checkpoints have packed shapes of their own
    if all(header.encoding in PLAIN_ENCODINGS for header in headers.values()):
        headers = split_fused(headers, family, sizes_from_config(config, family))
    facts = facts_from_config(config, headers, parts.known_ids)
    files = [values.path for values in reversed(stated)]
    if (folder / INDEX_FILE).is_file():
        files.append(folder / INDEX_FILE)
    files += [*parts.files, *(header.file for header in headers.values())]
    return OpenedCheckpoint(
        uri=uri,
        revision=revision,
        facts=facts,
        tokens=tokens_from_values(facts, parts, stated, template),
        headers=headers,
        files=files_once(files),
        float32_from_header=float32_from_plain,
        built_tokenizer=parts.tokenizer,
    )
