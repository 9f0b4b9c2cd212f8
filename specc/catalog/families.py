"""Architectures that the graph can build, as frozen rows. A new family is a row here and at most one block.

Tensor names are Hugging Face's; `{i}` is the decoder layer. GGUF names map onto them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal


@dataclass(frozen=True)
class FusedTensor:
    """A tensor of a layer that a checkpoint stores as one and the graph uses as several, rows after rows.

    Attributes:
        name: as stored, without layer and `.weight`.
        parts: name and kind of rows of each part: `q` and `kv` are the widths of the projections, `inner` is the
            intermediate size.
    """

    name: str
    parts: tuple[tuple[str, Literal["q", "kv", "inner"]], ...]


@dataclass(frozen=True)
class FamilyRow:
    """One family: what its configurations do not say, and how to read what they say.

    Attributes:
        name: key of the row.
        architectures: values of `architectures[0]` in Hugging Face configurations.
        gguf_architectures: values of `general.architecture` in GGUF files; empty: such files are not read.
        source: where the facts were read.
        gguf_permuted_rope: GGUF stores q and k with rotary pairs interleaved, to be undone.
        windows: which layers a sliding window holds for: `none` (an active one is refused), `all`, `upper` (from
            `max_window_layers` on), `period` (all but each n-th) or `unrotated` (layers without rotary embedding).
        window_flag: what an absent `use_sliding_window` means.
        default_window: what an absent `sliding_window` means; null always means none.
        window_period: n of `period`.
        no_rope_interval: each n-th layer has no rotary embedding; 0: all have it.
        norm_placement, norm_unit_offset, query_key_norm: see `NormFacts`; GGUF stores 1 + w where the offset holds.
        scaled_embedding: embedded tokens are multiplied by sqrt(hidden_size).
        partial_rotary: `partial_rotary_factor` is obeyed; elsewhere a value below 1 is refused.
        multipliers: `embedding_multiplier` and its three companions are obeyed.
        scalar: `query_pre_attn_scalar` is obeyed, and an absent one means this; None: the family has none.
        soft_caps: what absent `attn_logit_softcapping` and `final_logit_softcapping` mean, for keys that are obeyed.
        wide_scalar_layers: GGUF files with that many layers divide scores by sqrt(hidden_size / heads); others by
            sqrt(head_dim). The metadata does not say it.
        experts: whose keys describe blocks of experts; None: the family has none.
        renamed: parts of tensor names, as stored and as the graph calls them.
        fused: tensors that are split when they are read.
        gguf_up_is_fused: `ffn_up` of GGUF files is the fused tensor of gate and up.
        activation: what an absent key means.
        default_head_dim: what an absent head_dim means; None: hidden_size / num_attention_heads.
        default_norm_eps, default_theta: what absent keys mean.
        local_theta: base of the rotary embedding of layers with a window; None: the same as of the others.
    """

    name: str
    architectures: tuple[str, ...]
    gguf_architectures: tuple[str, ...]
    source: str
    gguf_permuted_rope: bool = False
    windows: Literal["none", "all", "upper", "period", "unrotated"] = "none"
    window_flag: bool = True
    default_window: int | None = None
    window_period: int = 1
    no_rope_interval: int = 0
    norm_placement: Literal["before", "after", "around"] = "before"
    norm_unit_offset: bool = False
    query_key_norm: Literal["none", "head", "width"] = "none"
    scaled_embedding: bool = False
    partial_rotary: bool = False
    multipliers: bool = False
    scalar: float | None = None
    soft_caps: dict[str, float | None] = field(default_factory=dict)
    wide_scalar_layers: int = 0
    experts: Literal["qwen3", "mixtral"] | None = None
    renamed: tuple[tuple[str, str], ...] = ()
    fused: tuple[FusedTensor, ...] = ()
    gguf_up_is_fused: bool = False
    activation: Literal["silu", "gelu_pytorch_tanh"] = "silu"
    default_head_dim: int | None = None
    default_norm_eps: float = 1e-6
    default_theta: float = 10000.0
    local_theta: float | None = None


FAMILIES: Final[dict[str, FamilyRow]] = {
    "llama": FamilyRow(
        name="llama",
        architectures=("LlamaForCausalLM",),
        gguf_architectures=("llama",),
        gguf_permuted_rope=True,
        source="transformers models/llama; gguf-py constants, conversion permutes q and k",
    ),
    "mistral": FamilyRow(
        name="mistral",
        architectures=("MistralForCausalLM",),
        gguf_architectures=(),
        windows="all",
        default_window=4096,
        source="transformers models/mistral; GGUF files of it say llama",
    ),
    "qwen2": FamilyRow(
        name="qwen2",
        architectures=("Qwen2ForCausalLM",),
        gguf_architectures=("qwen2",),
        windows="upper",
        window_flag=False,
        default_window=4096,
        source="transformers models/qwen2; llama.cpp src/models/qwen2.cpp",
    ),
    "qwen3": FamilyRow(
        name="qwen3",
        architectures=("Qwen3ForCausalLM",),
        gguf_architectures=("qwen3",),
        windows="upper",
        window_flag=False,
        default_window=4096,
        query_key_norm="head",
        default_head_dim=128,
        source="transformers models/qwen3; llama.cpp src/models/qwen3.cpp",
    ),
    "smollm3": FamilyRow(
        name="smollm3",
        architectures=("SmolLM3ForCausalLM",),
        gguf_architectures=("smollm3",),
        gguf_permuted_rope=True,
        windows="unrotated",
        window_flag=False,
        no_rope_interval=4,
        default_theta=2000000.0,
        source="transformers models/smollm3; llama.cpp src/models/smollm3.cpp, whose interval is fixed",
    ),
    "granite": FamilyRow(
        name="granite",
        architectures=("GraniteForCausalLM",),
        gguf_architectures=("granite",),
        gguf_permuted_rope=True,
        multipliers=True,
        source="transformers models/granite; llama.cpp conversion/granite.py",
    ),
    "olmo2": FamilyRow(
        name="olmo2",
        architectures=("Olmo2ForCausalLM",),
        gguf_architectures=("olmo2",),
        norm_placement="after",
        query_key_norm="width",
        default_norm_eps=1e-5,
        source="transformers models/olmo2; llama.cpp src/models/olmo2.cpp",
    ),
    "phi3": FamilyRow(
        name="phi3",
        architectures=("Phi3ForCausalLM",),
        gguf_architectures=("phi3",),
        windows="all",
        partial_rotary=True,
        fused=(
            FusedTensor(
                "self_attn.qkv_proj",
                (("self_attn.q_proj", "q"), ("self_attn.k_proj", "kv"), ("self_attn.v_proj", "kv")),
            ),
            FusedTensor("mlp.gate_up_proj", (("mlp.gate_proj", "inner"), ("mlp.up_proj", "inner"))),
        ),
        gguf_up_is_fused=True,
        default_norm_eps=1e-5,
        source="transformers models/phi3 (Phi-3, Phi-3.5, Phi-4); llama.cpp conversion/phi.py",
    ),
    "gemma2": FamilyRow(
        name="gemma2",
        architectures=("Gemma2ForCausalLM",),
        gguf_architectures=("gemma2",),
        windows="period",
        window_period=2,
        default_window=4096,
        norm_placement="around",
        norm_unit_offset=True,
        scaled_embedding=True,
        scalar=256.0,
        soft_caps={"attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0},
        wide_scalar_layers=46,
        activation="gelu_pytorch_tanh",
        default_head_dim=256,
        source="transformers models/gemma2; llama.cpp src/models/gemma2.cpp, conversion/gemma.py adds 1 to norms",
    ),
    "gemma3": FamilyRow(
        name="gemma3",
        architectures=("Gemma3ForCausalLM",),
        gguf_architectures=("gemma3",),
        windows="period",
        window_period=6,
        default_window=4096,
        norm_placement="around",
        norm_unit_offset=True,
        query_key_norm="head",
        scaled_embedding=True,
        scalar=256.0,
        soft_caps={"final_logit_softcapping": None},
        wide_scalar_layers=62,
        activation="gelu_pytorch_tanh",
        default_head_dim=256,
        default_theta=1000000.0,
        local_theta=10000.0,
        source="transformers models/gemma3; llama.cpp src/models/gemma3.cpp, conversion/gemma.py adds 1 to norms",
    ),
    "qwen3moe": FamilyRow(
        name="qwen3moe",
        architectures=("Qwen3MoeForCausalLM",),
        gguf_architectures=("qwen3moe",),
        windows="all",
        window_flag=False,
        default_window=4096,
        query_key_norm="head",
        experts="qwen3",
        source="transformers models/qwen3_moe; llama.cpp src/models/qwen3moe.cpp, which always normalizes",
    ),
    "mixtral": FamilyRow(
        name="mixtral",
        architectures=("MixtralForCausalLM",),
        gguf_architectures=(),
        windows="all",
        experts="mixtral",
        renamed=(
            (".block_sparse_moe.", ".mlp."),
            (".w1.", ".gate_proj."),
            (".w2.", ".down_proj."),
            (".w3.", ".up_proj."),
        ),
        default_norm_eps=1e-5,
        default_theta=1000000.0,
        source="transformers models/mixtral, whose router always normalizes",
    ),
}
