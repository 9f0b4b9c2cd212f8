"""Architectures that the graph can build, as frozen rows. A new family is a row here and at most one block.

Tensor names are Hugging Face's; `{i}` is the decoder layer. GGUF names map onto them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class FamilyRow:
    """One family.

    Attributes:
        name: key of the row.
        architectures: values of `architectures[0]` in Hugging Face configurations.
        gguf_architectures: values of `general.architecture` in GGUF files.
        gguf_permuted_rope: GGUF stores q and k with rotary pairs interleaved, to be undone.
        source: where the facts were read.
    """

    name: str
    architectures: tuple[str, ...]
    gguf_architectures: tuple[str, ...]
    gguf_permuted_rope: bool
    source: str


FAMILIES: Final[dict[str, FamilyRow]] = {
    "llama": FamilyRow(
        name="llama",
        architectures=("LlamaForCausalLM",),
        gguf_architectures=("llama",),
        gguf_permuted_rope=True,
        source="transformers models/llama; gguf-py constants, conversion permutes q and k",
    ),
}
