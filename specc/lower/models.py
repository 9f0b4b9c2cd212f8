"""The canonical graphs of a plan, before any pass: of the target in its variants, or of the draft."""

from __future__ import annotations

import onnx_ir as ir

from specc.bundle.manifest import EngineVariant
from specc.graph.decoder import target_graph
from specc.graph.drafters.model import draft_graph
from specc.graph.drafters.unrolled import unrolled_graph
from specc.plan.plan import Plan


def models_from_plan(plan: Plan) -> dict[EngineVariant, ir.Model]:
    """Return the graph of each variant, `main` first."""
    facts, graph = plan.target.facts, plan.graph
    if graph.role == "draft":
        authors = {"main": draft_graph, "unrolled": unrolled_graph}
        return {variant: authors[variant](facts, graph) for variant in graph.variants}
    return {variant: target_graph(facts, graph, variant) for variant in graph.variants}
