"""The facts of a model that graphs, memory plans and checks need, whatever file format stated them.

Names are those of Hugging Face configurations. A fact that the tensors can tell (biases, a separate head) is read from
the tensor headers, not from a flag.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal


@dataclass(frozen=True)
class YarnFacts:
    """Where `yarn` scaling begins and ends, as in `rope_scaling`.

    Attributes:
        beta_fast, beta_slow: turns within the original context above which a frequency stays, below which it is divided
            by the factor; between them it is blended.
        truncate: the ends of the blend are whole pairs of elements.
    """

    beta_fast: float
    beta_slow: float
    truncate: bool


@dataclass(frozen=True)
class LongRopeFacts:
    """Two sets of divisors of the frequencies; a bundle uses one of them for all its texts.

    Attributes:
        short_factor, long_factor: one divisor a pair of rotated elements.
        in_use: `long` where the bundle's texts may pass original_max_position_embeddings: planning decides it, since
            cached keys cannot change their rotation when a text passes that length.
    """

    short_factor: tuple[float, ...]
    long_factor: tuple[float, ...]
    in_use: Literal["short", "long"]


@dataclass(frozen=True)
class RopeFacts:
    """Rotary embedding: base and scaling.

    Attributes:
        theta: base of the frequency ladder.
        scaling: kind of frequency scaling; `llama3` uses the four numbers below, `linear` only `factor`, `yarn` the
            factor, the original length and its own record, `longrope` the original length and its own record.
        factor, low_freq_factor, high_freq_factor, original_max_position_embeddings: as in `rope_scaling`;
            1.0 and 0 where unused.
        rotary_dim: the first elements of each head that are rotated; 0: all of them.
        attention_factor: cos and sin are multiplied by it.
    """

    theta: float
    scaling: Literal["none", "linear", "llama3", "yarn", "longrope"]
    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_max_position_embeddings: int
    rotary_dim: int = 0
    attention_factor: float = 1.0
    yarn: YarnFacts | None = None
    longrope: LongRopeFacts | None = None


@dataclass(frozen=True)
class LayerFacts:
    """What may differ from layer to layer.

    Attributes:
        window: tokens that a query sees, itself included; 0: the whole context.
        rope: which rotary embedding; `local` is `ModelFacts.local_rope`.
        experts: the feed-forward block is a mixture of experts.
    """

    window: int
    rope: Literal["main", "local", "none"]
    experts: bool


PLAIN_LAYER: Final = LayerFacts(window=0, rope="main", experts=False)


@dataclass(frozen=True)
class NormFacts:
    """Where a layer normalizes, and how.

    Attributes:
        placement: `before` attention and feed-forward block, `after` them (before the residual sum), or `around`: both.
        unit_offset: the tensors hold w and the norm multiplies by 1 + w.
        query_key: norms of queries and keys, none, over each head, or over the full width of the projection.
    """

    placement: Literal["before", "after", "around"] = "before"
    unit_offset: bool = False
    query_key: Literal["none", "head", "width"] = "none"


@dataclass(frozen=True)
class ScaleFacts:
    """Factors and caps beside the matrices.

    Attributes:
        embedding_multiplier: of the embedded tokens.
        residual_multiplier: of what attention and feed-forward block add.
        attention_multiplier: of the scores; None: 1 / sqrt(head_dim).
        logits_scaling: what logits are divided by.
        attn_logit_softcapping, final_logit_softcapping: c of c * tanh(x / c) over scores and logits; None: no cap.
    """

    embedding_multiplier: float = 1.0
    residual_multiplier: float = 1.0
    attention_multiplier: float | None = None
    logits_scaling: float = 1.0
    attn_logit_softcapping: float | None = None
    final_logit_softcapping: float | None = None

    @property
    def plain_logits(self) -> bool:
        """Whether the logits are the head's product as it is."""
        return (self.logits_scaling, self.final_logit_softcapping) == (1.0, None)


@dataclass(frozen=True)
class ExpertFacts:
    """A mixture of experts; router probabilities are a softmax over all experts.

    Attributes:
        num_experts: of each layer that has them.
        num_experts_per_tok: how many a token goes through.
        moe_intermediate_size: inner size of one expert.
        norm_topk_prob: the probabilities of the chosen experts are divided by their sum.
    """

    num_experts: int
    num_experts_per_tok: int
    moe_intermediate_size: int
    norm_topk_prob: bool


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
        stored_dtype: of the bulk of the weights: `f32`, `f16`, `bf16`, a GGUF block type in lower case, or the
            element of quantized matrices, as `uint4`.
        local_rope: rotary embedding of the layers that say so; None where all rotated layers use `rope`.
        layers: one entry a layer; empty: every layer is `PLAIN_LAYER`.
        experts: of the layers that have them.
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
    hidden_act: Literal["silu", "gelu_pytorch_tanh"]
    rope: RopeFacts
    attention_bias: bool
    attention_output_bias: bool
    mlp_bias: bool
    tie_word_embeddings: bool
    stored_dtype: str
    local_rope: RopeFacts | None = None
    layers: tuple[LayerFacts, ...] = ()
    norms: NormFacts = NormFacts()
    scales: ScaleFacts = ScaleFacts()
    experts: ExpertFacts | None = None

    def layer(self, index: int) -> LayerFacts:
        """Return what holds for one layer."""
        return self.layers[index] if self.layers else PLAIN_LAYER


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
