"""The facts of a model that graphs, memory plans and checks need, whatever file format stated them.

Names are those of Hugging Face configurations. A fact that the tensors can tell (biases, a separate head) is read from
the tensor headers, not from a flag.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class RopeFacts:
    """Rotary embedding: base and scaling.

    Attributes:
        theta: base of the frequency ladder.
        scaling: kind of frequency scaling; `llama3` uses the four numbers below, `linear` only `factor`.
        factor, low_freq_factor, high_freq_factor, original_max_position_embeddings: as in `rope_scaling`;
            1.0 and 0 where unused.
    """

    theta: float
    scaling: Literal["none", "linear", "llama3"]
    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_max_position_embeddings: int


@dataclass(frozen=True)
class ModelFacts:
    """A decoder-only model.

    Attributes:
        family: key of `specc.catalog.families.FAMILIES`.
        architecture: `architectures[0]` of the Hugging Face configuration, or the GGUF architecture.
        vocab_size: rows of the embedding, the width of the head.
        emitted_vocab_size: ids from 0 below this belong to the tokenizer; the rest is padding, never picked.
        head_dim: as stated, else hidden_size / num_attention_heads.
        attention_bias: q, k and v projections have bias tensors.
        attention_output_bias: the output projection has one.
        mlp_bias: the feed-forward projections have them.
        tie_word_embeddings: there is no head tensor of its own; the embedding is the head.
        stored_dtype: of the bulk of the weights: `f32`, `f16`, `bf16`, or a GGUF block type in lower case.
    """

    family: str
    architecture: str
    vocab_size: int
    emitted_vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    max_position_embeddings: int
    rms_norm_eps: float
    hidden_act: Literal["silu"]
    rope: RopeFacts
    attention_bias: bool
    attention_output_bias: bool
    mlp_bias: bool
    tie_word_embeddings: bool
    stored_dtype: str


@dataclass(frozen=True)
class TokenFacts:
    """Special tokens and generation defaults, from config, generation_config and the tokenizer together.

    Attributes:
        stop_ids: ascending union of every stated end-of-sequence id.
        bos_id: beginning-of-sequence id, None when there is none.
        add_bos: the tokenizer's own rule for plain text.
        chat_template: jinja2 text, None when there is none.
        temperature, top_k, top_p, min_p: of generation_config where `do_sample` is true; None where not stated.
        eos_id: the tokenizer's own end-of-sequence id, what chat templates call `eos_token`; None when it states none.
    """

    stop_ids: tuple[int, ...]
    bos_id: int | None
    add_bos: bool
    chat_template: str | None
    temperature: float | None
    top_k: int | None
    top_p: float | None
    min_p: float | None
    eos_id: int | None = None
