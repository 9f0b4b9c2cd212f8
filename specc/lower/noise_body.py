"""Exchange of the body of `specc::Noise`; every body computes the same bits."""

from __future__ import annotations

import onnx_ir as ir

from specc.errors import SpeccBug
from specc.plan.plan import GraphPlan


def replace_noise(model: ir.Model, graph: GraphPlan, function: ir.Function) -> None:
    """Put `function` in the place of the model's `specc::Noise`; a greedy graph has none.

    Raises:
        SpeccBug: a graph that samples lacks the function.
    """
    if graph.acceptance == "greedy":
        return
    if function.identifier() not in model.functions:
        raise SpeccBug(f"the graph samples but has no function {function.identifier()}")
    model.functions[function.identifier()] = function
