"""Root-mean-square normalization."""

from __future__ import annotations

import onnx_ir as ir

from specc.checkpoint.facts import ModelFacts
from specc.graph.builder import Builder
from specc.plan.plan import GraphPlan


def rms_norm(builder: Builder, x: ir.Value, name: str, facts: ModelFacts, graph: GraphPlan) -> ir.Value:
    """Return x / rms(x) * weight over the last axis; the mean is taken in float32 whatever the dtype (stash_type 1).

    Source: arXiv:1910.07467; the operator, not its parts, because ONNX Runtime does not fuse the parts.
    """
    scale = builder.initializer(f"{name}.weight", graph.compute_dtype, (facts.hidden_size,))
    return builder.op("RMSNormalization", x, scale, name=name, axis=-1, epsilon=facts.rms_norm_eps)
