"""The facts of a model from its config.json alone: enough to plan, never enough to build."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from specc.checkpoint.facts import ModelFacts
from specc.checkpoint.hf_config import stated_facts
from specc.checkpoint.source import TensorHeader
from specc.checkpoint.tensor_set import HEAD
from specc.checkpoint.values import values_from_json_file


def facts_from_config_file(path: Path) -> ModelFacts:
    """Return the facts that config.json states; biases, which only tensors tell, are left out.

    Args:
        path: the file, or the folder that holds it.

    Raises:
        SpeccError: SPC2nn the file cannot be read, or states no model that specc knows.
    """
    config = values_from_json_file(path / "config.json" if path.is_dir() else path)
    headers: dict[str, TensorHeader] = {}
    if "tie_word_embeddings" in config and not config.boolean("tie_word_embeddings"):
        headers[HEAD] = TensorHeader(HEAD, (), "bf16", config.path, 0, 0, plain=True)
    return replace(stated_facts(config, headers, None), stored_dtype="unknown")
