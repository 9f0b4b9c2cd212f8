"""The gated feed-forward block."""

from __future__ import annotations

import onnx_ir as ir

from specc.checkpoint.facts import ModelFacts
from specc.graph.blocks.linear import linear
from specc.graph.builder import Builder
from specc.plan.plan import GraphPlan


def gated_mlp(
    builder: Builder, x: ir.Value, name: str, facts: ModelFacts, graph: GraphPlan, *, inner: int | None = None
) -> ir.Value:
    """Return down(act(gate(x)) * up(x)) for x [..., H]; `inner` is intermediate_size by default."""
    size = inner or facts.intermediate_size
    hidden, dtype, bias = facts.hidden_size, graph.compute_dtype, facts.mlp_bias
    gate = linear(builder, x, f"{name}.gate_proj", into=hidden, out=size, dtype=dtype, bias=bias)  # [..., I]
    up = linear(builder, x, f"{name}.up_proj", into=hidden, out=size, dtype=dtype, bias=bias)  # [..., I]
    product = builder.op("Mul", _activated(builder, gate, name, facts), up, name=f"{name}.gated")
    return linear(builder, product, f"{name}.down_proj", into=size, out=hidden, dtype=dtype, bias=bias)


def _activated(builder: Builder, gate: ir.Value, name: str, facts: ModelFacts) -> ir.Value:
    """Return the activation of the gate.

    SiLU is written x * Sigmoid(x): ONNX Runtime has Swish for one opset only, and fuses the product.
    """
    if facts.hidden_act == "gelu_pytorch_tanh":
        return builder.op("Gelu", gate, name=f"{name}.gelu", approximate="tanh")
    sigmoid = builder.op("Sigmoid", gate, name=f"{name}.sigmoid")
    return builder.op("Mul", gate, sigmoid, name=f"{name}.silu")
