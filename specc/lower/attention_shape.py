"""What an Attention node of a canonical graph says of its heads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import onnx_ir as ir

from specc.errors import SpeccBug


@dataclass(frozen=True)
class AttentionShape:
    """An Attention node, its graph, its query [B, heads, tokens, dim], and heads of its cache."""

    owner: ir.Graph
    node: ir.Node
    query: ir.Value
    tokens: int | ir.SymbolicDim
    heads: int
    kv_heads: int
    dim: int


def attentions(model: ir.Model) -> Iterator[AttentionShape]:
    """Yield the attentions of a model, of its subgraphs too.

    Raises:
        SpeccBug: one does not state its heads.
    """
    for node in list(model.graph.all_nodes()):
        if node.op_type == "Attention" and node.domain == "" and isinstance(node.graph, ir.Graph):
            yield _shape(node.graph, node)


def _shape(owner: ir.Graph, node: ir.Node) -> AttentionShape:
    query, cache = node.inputs[0], node.inputs[1]
    if query is None or cache is None or query.shape is None or cache.shape is None:
        raise SpeccBug(f"{node.name}: query and cache must state their shapes")
    heads, dim, kv_heads = query.shape[1], query.shape[3], cache.shape[1]
    if not isinstance(heads, int) or not isinstance(dim, int) or not isinstance(kv_heads, int):
        raise SpeccBug(f"{node.name}: heads and head size must be numbers")
    return AttentionShape(owner, node, query, query.shape[2], heads, kv_heads, dim)
