"""Root-mean-square normalization."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from specc.checkpoint.facts import ModelFacts
from specc.graph.builder import DATA_TYPES, Builder
from specc.plan.plan import GraphPlan


def rms_norm(
    builder: Builder, x: ir.Value, name: str, facts: ModelFacts, graph: GraphPlan, *, width: int | None = None
) -> ir.Value:
    """Return x / rms(x) * weight over the last axis; the mean is taken in float32 whatever the dtype (stash_type 1).

    Args:
        builder: where the nodes go.
        x: [..., width].
        name: canonical name of the norm without `.weight`.
        facts: epsilon, and whether the factor is 1 + weight.
        graph: the dtype.
        width: elements of the last axis; hidden_size by default.

    Source: arXiv:1910.07467; the operator, not its parts, because ONNX Runtime does not fuse the parts.
    """
    scale = builder.initializer(f"{name}.weight", graph.compute_dtype, (width or facts.hidden_size,))
    if facts.norms.unit_offset:
        # Both back ends fold the sum of two constants while they load it.
        one = builder.constant(np.ones(1, dtype=DATA_TYPES[graph.compute_dtype].numpy()), "one")
        scale = builder.op("Add", scale, one, name=f"{name}.factor")
    return builder.op("RMSNormalization", x, scale, name=name, axis=-1, epsilon=facts.rms_norm_eps)
