"""Names of TensorRT-LLM's tensors and what they are made of, as rows: fusing q, k and v is one line.

A row whose sources a model does not have is not used, so biases, norms of queries and keys and Gemma's further norms
need no switch. `fc` is the activated projection, which Hugging Face calls gate_proj, and `gate` is up_proj: the names
are the other way round here. In a stack of experts the order within `fc` is up, then gate.

Source: models/llama/convert.py, models/gemma/convert.py and models/qwen of TensorRT-LLM 1.2; ModelOpt's layer_utils.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal


@dataclass(frozen=True)
class TensorRule:
    """One tensor of a layer.

    Attributes:
        name: behind `transformer.layers.{i}.`.
        sources: behind `model.layers.{i}.`, one after the other; `{e}` stands for each expert in turn.
        split: `rows` of each source are divided among the GPUs, `columns` likewise, or each GPU has all (`whole`).
        quantized: a matrix that schemes quantize.
        shares: further sources under the same scale: TensorRT-LLM fuses `fc` and `gate`.
        norm: holds the weights of a norm.
        dtype: of the stored values where it is not the model's.
    """

    name: str
    sources: tuple[str, ...]
    split: Literal["rows", "columns", "whole"]
    quantized: bool = False
    shares: tuple[str, ...] = ()
    norm: bool = False
    dtype: Literal["f32"] | None = None


def _matrix(
    name: str, sources: tuple[str, ...], split: Literal["rows", "columns"], shares: tuple[str, ...] = ()
) -> tuple[TensorRule, TensorRule]:
    """Return the rows of a projection: its weight, and its bias, which every GPU adds whole after the sum."""
    bias: Literal["rows", "whole"] = "rows" if split == "rows" else "whole"
    weights = tuple(f"{source}.weight" for source in sources)
    return (
        TensorRule(f"{name}.weight", weights, split, quantized=True, shares=tuple(f"{s}.weight" for s in shares)),
        TensorRule(f"{name}.bias", tuple(f"{source}.bias" for source in sources), bias),
    )


LAYER: Final[tuple[TensorRule, ...]] = (
    TensorRule("input_layernorm.weight", ("input_layernorm.weight",), "whole", norm=True),
    *_matrix("attention.qkv", ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"), "rows"),
    *_matrix("attention.dense", ("self_attn.o_proj",), "columns"),
    TensorRule("attention.q_layernorm.weight", ("self_attn.q_norm.weight",), "whole", norm=True),
    TensorRule("attention.k_layernorm.weight", ("self_attn.k_norm.weight",), "whole", norm=True),
    TensorRule("post_layernorm.weight", ("post_attention_layernorm.weight",), "whole", norm=True),
    TensorRule("pre_feedforward_layernorm.weight", ("pre_feedforward_layernorm.weight",), "whole", norm=True),
    TensorRule("post_feedforward_layernorm.weight", ("post_feedforward_layernorm.weight",), "whole", norm=True),
    *_matrix("mlp.fc", ("mlp.gate_proj",), "rows", ("mlp.up_proj",)),
    *_matrix("mlp.gate", ("mlp.up_proj",), "rows", ("mlp.gate_proj",)),
    *_matrix("mlp.proj", ("mlp.down_proj",), "columns"),
    TensorRule("mlp.router.weight", ("mlp.gate.weight",), "whole", dtype="f32"),
    TensorRule("mlp.fc.weight", ("mlp.experts.{e}.up_proj.weight", "mlp.experts.{e}.gate_proj.weight"), "rows",
               quantized=True),
    TensorRule("mlp.proj.weight", ("mlp.experts.{e}.down_proj.weight",), "columns", quantized=True),
)  # fmt: skip

EMBEDDING_NAME: Final = "transformer.vocab_embedding.weight"
FINAL_NORM: Final = TensorRule("transformer.ln_f.weight", ("model.norm.weight",), "whole", norm=True)
HEAD_NAME: Final = "lm_head.weight"
CACHE_SCALE: Final = "attention.kv_cache_scaling_factor"
"""Of fp8 caches, one for keys and values."""
KEYS_AND_VALUES: Final = ("self_attn.k_proj.", "self_attn.v_proj.")
"""Sources whose heads are repeated when there are fewer of them than GPUs."""
