"""A mixture of experts in plain ONNX operators: each expert sees the tokens that chose it, and no others.

Measured on ONNX Runtime 1.32, one thread, against two other plain forms (benchmarks/expert_forms.py): 32 experts of
384, hidden size 1024, 4 experts a token take 0.6, 5, 10 and 18 ms for 1, 6, 32 and 128 tokens; gathering the chosen
experts' weights for each token takes 1.3, 18, 162 and 825 ms, every expert for every token 7.6, 10, 29 and 175 ms.
The price: an expert that no token chose still costs a dozen calls of operators on empty tensors, about 4 microseconds.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from specc.bundle.manifest import TensorDtype
from specc.checkpoint.facts import ExpertFacts, ModelFacts
from specc.errors import SpeccBug
from specc.graph.blocks.linear import linear
from specc.graph.blocks.mlp import gated_mlp
from specc.graph.builder import Builder
from specc.plan.plan import GraphPlan


def expert_mlp(builder: Builder, x: ir.Value, name: str, facts: ModelFacts, graph: GraphPlan) -> ir.Value:
    """Return the sum of the chosen experts' outputs, weighted by the router, for x [B, S, H].

    Source: transformers models/qwen3_moe: softmax over all experts in float32, the best k, divided by their sum where
    `norm_topk_prob` says so.
    """
    experts = facts.experts
    if experts is None:
        raise SpeccBug(f"{name}: a layer of experts in a model that states none")
    tokens = builder.op("Reshape", x, builder.i64(-1, facts.hidden_size), name=f"{name}.tokens")  # [T, H]
    routing = _routing(builder, tokens, name, experts, into=facts.hidden_size, dtype=graph.compute_dtype)  # [T, E]
    total = builder.op("ConstantOfShape", builder.op("Shape", tokens, name=f"{name}.shape"), name=f"{name}.zeros")
    for index in range(experts.num_experts):
        expert = f"{name}.experts.{index}"
        weight = builder.op("Gather", routing, builder.i64(index), name=f"{expert}.weight", axis=1)  # [T, 1]
        flat = builder.op("Reshape", weight, builder.i64(-1), name=f"{expert}.flat_weight")  # [T]
        rows = builder.op("Transpose", builder.op("NonZero", flat, name=f"{expert}.hits"), perm=[1, 0])  # [n, 1]
        asked = builder.op("GatherND", tokens, rows, name=f"{expert}.tokens")  # [n, H]
        fed = gated_mlp(builder, asked, expert, facts, graph, inner=experts.moe_intermediate_size)  # [n, H]
        share = builder.op("GatherND", weight, rows, name=f"{expert}.share")  # [n, 1]
        part = builder.op("Mul", fed, share, name=f"{expert}.weighted")
        total = builder.op("ScatterND", total, rows, part, name=f"{expert}.added", reduction="add")
    return builder.op("Reshape", total, builder.op("Shape", x, name=f"{name}.x_shape"), name=f"{name}.joined")


def _routing(
    builder: Builder, tokens: ir.Value, name: str, experts: ExpertFacts, *, into: int, dtype: TensorDtype
) -> ir.Value:
    """Return the weight of every expert for every token, [T, E]: zero where the token does not choose it."""
    count = experts.num_experts
    scores = linear(builder, tokens, f"{name}.gate", into=into, out=count, dtype=dtype, bias=False)
    probabilities = builder.op("Softmax", scores, name=f"{name}.probabilities", axis=-1)  # [T, E]
    best, chosen = builder.ops(
        "TopK",
        probabilities,
        builder.i64(experts.num_experts_per_tok),
        outputs=(f"{name}.best", f"{name}.chosen"),
        axis=-1,
    )  # [T, k]
    if experts.norm_topk_prob:
        best = builder.op(
            "Div", best, builder.op("ReduceSum", best, builder.i64(-1), name=f"{name}.sum"), name=f"{name}.share"
        )
    nothing = builder.op("Mul", probabilities, builder.constant(np.zeros((), dtype=np.float32)), name=f"{name}.nothing")
    return builder.op("ScatterElements", nothing, chosen, best, name=f"{name}.routing", axis=1)
