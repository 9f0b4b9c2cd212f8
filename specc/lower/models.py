"""The canonical graphs of a plan, before any pass: of the target in its variants, or of the draft."""

from __future__ import annotations

import onnx_ir as ir

from specc.graph.decoder import Variant, target_graph
from specc.graph.drafters.model import draft_graph
from specc.plan.plan import Plan


def models_from_plan(plan: Plan) -> dict[Variant, ir.Model]:
    """Return the graph of each variant, `main` first."""
    facts, graph = plan.target.facts, plan.graph
    if graph.role == "draft":
        return {"main": draft_graph(facts, graph)}
    return {variant: target_graph(facts, graph, variant) for variant in graph.variants}
