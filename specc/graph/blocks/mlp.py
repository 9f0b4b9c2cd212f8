"""The gated feed-forward block."""

from __future__ import annotations

import onnx_ir as ir

from specc.checkpoint.facts import ModelFacts
from specc.graph.blocks.linear import linear
from specc.graph.builder import Builder
from specc.plan.plan import GraphPlan


def gated_mlp(builder: Builder, x: ir.Value, name: str, facts: ModelFacts, graph: GraphPlan) -> ir.Value:
    """Return down(silu(gate(x)) * up(x)) for x [B, S, H].

    SiLU is written x * Sigmoid(x): ONNX Runtime has Swish for one opset only, and fuses the product.
    """
    hidden, inner, dtype, bias = facts.hidden_size, facts.intermediate_size, graph.compute_dtype, facts.mlp_bias
    gate = linear(builder, x, f"{name}.gate_proj", into=hidden, out=inner, dtype=dtype, bias=bias)  # [B, S, I]
    up = linear(builder, x, f"{name}.up_proj", into=hidden, out=inner, dtype=dtype, bias=bias)  # [B, S, I]
    sigmoid = builder.op("Sigmoid", gate, name=f"{name}.sigmoid")
    silu = builder.op("Mul", gate, sigmoid, name=f"{name}.silu")
    product = builder.op("Mul", silu, up, name=f"{name}.gated")
    return linear(builder, product, f"{name}.down_proj", into=inner, out=hidden, dtype=dtype, bias=bias)
