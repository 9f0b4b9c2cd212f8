"""Pass: repeat query heads of a model with fewer than four, and drop what the repeated ones give.

TensorRT-RTX 1.7.1 has a fused attention for calls of one token from four query heads on, for longer ones from two on,
and makes no engine without: measured with engines of one Attention, 1 to 128 heads, float16 and bfloat16, SM 7.5 to
12.1, whatever the key/value heads and the capacity. A repeated head costs a read of the same cache rows once more.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import onnx_ir as ir

from specc.graph.builder import Builder
from specc.lower.attention_shape import AttentionShape, attentions
from specc.lower.lowering_pass import LoweringPass
from specc.plan.plan import GraphPlan

LEAST_HEADS: Final = 4


def _apply(model: ir.Model, graph: GraphPlan) -> None:  # noqa: ARG001 - the form of a pass
    for attention in attentions(model):
        if attention.heads < LEAST_HEADS:
            _repeat(attention)


def _repeat(attention: AttentionShape) -> None:
    """Widen the group of each key/value head to the least that gives enough heads; the last of a group is repeated."""
    node, groups = attention.node, attention.heads // attention.kv_heads
    wide = -(-LEAST_HEADS // attention.kv_heads)
    repeated = [head * groups + min(i, groups - 1) for head in range(attention.kv_heads) for i in range(wide)]
    kept = [head * wide + i for head in range(attention.kv_heads) for i in range(groups)]
    before, after = Builder(), Builder()
    ids = before.constant(np.array(repeated, dtype=np.int64), f"{node.name}.repeated")
    query = before.op("Gather", attention.query, ids, name=f"{node.name}.repeated_query", axis=1)
    query.type = attention.query.type
    query.shape = ir.Shape(("B", len(repeated), attention.tokens, attention.dim))
    node.replace_input_with(0, query)  # [B, KV W, S, D]
    attention.owner.insert_before(node, before.nodes)
    users = list(node.outputs[0].uses())
    ids = after.constant(np.array(kept, dtype=np.int64), f"{node.name}.kept")
    output = after.op("Gather", node.outputs[0], ids, name=f"{node.name}.kept_heads", axis=1)
    for user, index in users:
        user.replace_input_with(index, output)  # [B, N, S, D]
    attention.owner.insert_after(node, after.nodes)


REPEAT_HEADS: Final = LoweringPass("repeat_heads", ("canonical",), ("four query heads at least",), _apply)
