"""Tensor names of GGUF files and their Hugging Face names.

Source: gguf-py tensor_mapping.
"""

from __future__ import annotations

import re
from typing import Final

from specc.catalog.families import FamilyRow
from specc.checkpoint.tensor_set import EMBEDDING, HEAD

ROPE_FACTORS: Final = "rope_freqs.weight"
LONG_FACTORS: Final = "rope_factors_long.weight"
SHORT_FACTORS: Final = "rope_factors_short.weight"
ROPE_TENSORS: Final = (ROPE_FACTORS, LONG_FACTORS, SHORT_FACTORS)
"""Tensors that describe rotary scaling; they are facts, not weights."""
GLOBAL_NAMES: Final = {
    "token_embd.weight": EMBEDDING,
    "output_norm.weight": "model.norm.weight",
    "output.weight": HEAD,
}
LAYER_NAMES: Final = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_qkv": "self_attn.qkv_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "ffn_gate_inp": "mlp.gate",
    "ffn_gate_exps": "mlp.experts.gate_proj",
    "ffn_up_exps": "mlp.experts.up_proj",
    "ffn_down_exps": "mlp.experts.down_proj",
}
NORMS_AFTER: Final = {
    "post_attention_norm": "post_attention_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
NORMS_AROUND: Final = NORMS_AFTER | {"ffn_norm": "pre_feedforward_layernorm"}
LAYER_NAME: Final = re.compile(r"blk\.(0|[1-9][0-9]{0,4})\.([a-z_]+)\.(weight|bias)")


def canonical_name(name: str, family: FamilyRow) -> str:
    """Return the Hugging Face name of a GGUF tensor; a name of no known tensor stays as it is, to be refused later."""
    match = LAYER_NAME.fullmatch(name)
    if match is not None and match[2] in (names := _layer_names(family)):
        return f"model.layers.{match[1]}.{names[match[2]]}.{match[3]}"
    return GLOBAL_NAMES.get(name, name)


def is_rotated(name: str) -> bool:
    """Return whether a tensor (canonical name) makes queries or keys, whose rows rotary embedding pairs up."""
    return name.endswith(
        (".self_attn.q_proj.weight", ".self_attn.k_proj.weight", ".self_attn.q_proj.bias", ".self_attn.k_proj.bias")
    )


def _layer_names(family: FamilyRow) -> dict[str, str]:
    names = dict(LAYER_NAMES)
    if family.norm_placement == "after":
        names |= NORMS_AFTER
    if family.norm_placement == "around":
        names |= NORMS_AROUND
    if family.gguf_up_is_fused:
        names["ffn_up"] = "mlp.gate_up_proj"
    return names
