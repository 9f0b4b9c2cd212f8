"""What the weights of a head take of one GPU, counted from its own files: servers load them beside the target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from specc.catalog.sizes import size_text
from specc.checkpoint.head_folder import HeadTensor
from specc.plan.elements import heads_held
from specc.plan.plan import MemoryItem

SHARED: Final = ("q_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "lm_head", "embed_tokens")
"""Divided among the GPUs as the target's are; what has another name is counted whole on each."""
REPEATED: Final = ("k_proj", "v_proj")


def item_of_head(tensors: Sequence[HeadTensor], kv_heads: int, gpus: int) -> MemoryItem:
    """Return the row of the memory table.

    Args:
        tensors: of the head.
        kv_heads: key-value heads of the target, which those of its heads follow.
        gpus: that share every matrix.
    """
    held = sum(_held(tensor, kv_heads, gpus) for tensor in tensors)
    detail = f"{len(tensors)} tensors of its files, {size_text(sum(tensor.nbytes for tensor in tensors))} as stored"
    if gpus > 1:
        detail += f"; projections, head and embedding 1/{gpus} of them"
    return MemoryItem("draft weights: head files", held, detail, "weights")


def _held(tensor: HeadTensor, kv_heads: int, gpus: int) -> int:
    parts = tensor.name.split(".")
    if any(name in parts for name in REPEATED):
        return -(-tensor.nbytes * heads_held(kv_heads, gpus) // kv_heads)
    return -(-tensor.nbytes // gpus) if any(name in parts for name in SHARED) else tensor.nbytes
