"""Tensor names of GGUF files and their Hugging Face names.

Source: gguf-py tensor_mapping (llama).
"""

from __future__ import annotations

import re
from typing import Final

from specc.checkpoint.tensor_set import EMBEDDING, HEAD

ROPE_FACTORS: Final = "rope_freqs.weight"
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
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
LAYER_NAME: Final = re.compile(r"blk\.(0|[1-9][0-9]{0,4})\.([a-z_]+)\.(weight|bias)")


def canonical_name(name: str) -> str:
    """Return the Hugging Face name of a GGUF tensor; a name of no known tensor stays as it is, to be refused later."""
    match = LAYER_NAME.fullmatch(name)
    if match is not None and match[2] in LAYER_NAMES:
        return f"model.layers.{match[1]}.{LAYER_NAMES[match[2]]}.{match[3]}"
    return GLOBAL_NAMES.get(name, name)


def is_rotated(name: str) -> bool:
    """Return whether a tensor (canonical name) makes queries or keys, whose rows rotary embedding pairs up."""
    return name.endswith(
        (".self_attn.q_proj.weight", ".self_attn.k_proj.weight", ".self_attn.q_proj.bias", ".self_attn.k_proj.bias")
    )
