"""Which model families TensorRT-LLM takes in each flow, and what its model classes assume.

Source: models/__init__.py, llama/, qwen/ and gemma/ of TensorRT-LLM 1.2 for engines; its page of supported models for
the PyTorch back end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal


@dataclass(frozen=True)
class TrtllmModelRow:
    """A family in the engine flow.

    Attributes:
        family: key of `FAMILIES`.
        architecture: of config.json.
        config_class: which of TensorRT-LLM's configurations reads it; it decides the further keys.
        biases: on all four projections of attention, on query, key and value alone, or on none of them.
        windows: whether layers with a sliding window have one there too.
    """

    family: str
    architecture: str
    config_class: Literal["llama", "qwen", "gemma"]
    biases: Literal["all", "inputs", "none"]
    windows: bool = False


ENGINE_MODELS: Final[dict[str, TrtllmModelRow]] = {
    row.family: row
    for row in (
        TrtllmModelRow("llama", "LlamaForCausalLM", "llama", "all"),
        TrtllmModelRow("mistral", "MistralForCausalLM", "llama", "all"),
        TrtllmModelRow("mixtral", "MixtralForCausalLM", "llama", "all"),
        TrtllmModelRow("qwen2", "Qwen2ForCausalLM", "qwen", "inputs"),
        TrtllmModelRow("qwen3", "Qwen3ForCausalLM", "qwen", "none"),
        TrtllmModelRow("gemma2", "Gemma2ForCausalLM", "gemma", "none"),
        TrtllmModelRow("gemma3", "Gemma3ForCausalLM", "gemma", "none", windows=True),
    )
}

SERVE_FAMILIES: Final = ("llama", "mistral", "mixtral", "qwen2", "qwen3", "qwen3moe", "gemma3")
