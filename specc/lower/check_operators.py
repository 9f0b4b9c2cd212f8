"""Pass: refuse a graph with an operator that its back end is not known to take; `operators.py` has the rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import onnx_ir as ir

from specc.errors import SpeccBug
from specc.graph.builder import DOMAIN
from specc.lower.lowering_pass import LoweringPass
from specc.lower.operators import TENSORRT, refusal
from specc.plan.plan import GraphPlan
from specc.plugin.operators import OPERATORS
from specc.plugin.variants import plugin_name

_PLUGINS: Final = frozenset(plugin_name(name) for name in OPERATORS)


def check_operators(backend: str) -> LoweringPass:
    """Return the pass of one back end; it changes nothing."""

    def apply(model: ir.Model, graph: GraphPlan) -> None:  # noqa: ARG001 - the form of a pass
        found = [f"{node.name} ({node.op_type}): {why}" for node, why in _refused(model, backend)]
        if found:
            raise SpeccBug(f"the graph is not legal for {backend}: {'; '.join(found)}")

    return LoweringPass("check_operators", ("canonical",), ("every operator is legal",), apply)


def _refused(model: ir.Model, backend: str) -> Iterator[tuple[ir.Node, str]]:
    for node in _all_nodes(model):
        if node.domain == DOMAIN:
            is_plugin = backend == TENSORRT and node.op_type in _PLUGINS
            if node.op_identifier() not in model.functions and not is_plugin:
                yield node, "the model has no such function"
        elif (why := refusal(f"{node.domain}::{node.op_type}" if node.domain else node.op_type, backend)) is not None:
            yield node, why


def _all_nodes(model: ir.Model) -> Iterator[ir.Node]:
    yield from model.graph.all_nodes()
    for function in model.functions.values():
        yield from function.all_nodes()
