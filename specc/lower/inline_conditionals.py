"""Pass: compute both branches of every If and select, so that the graph has no control flow.

On a GPU a conditional makes the host wait for its condition and keeps the step out of CUDA graphs; the branches of the
sampler cost less than that. Branches have no side effects in ONNX, so both may run.
"""

from __future__ import annotations

from typing import Final

import onnx_ir as ir

from specc.errors import SpeccBug
from specc.lower.lowering_pass import LoweringPass
from specc.lower.take_place import take_place
from specc.plan.plan import GraphPlan

NO_CONTROL_FLOW: Final = "no control flow"
_CONTROL_FLOW: Final = ("If", "Loop", "Scan")


def _apply(model: ir.Model, graph: GraphPlan) -> None:  # noqa: ARG001 - the form of a pass
    for owner in (model.graph, *(function.graph for function in model.functions.values())):
        waiting = [node for node in owner if _is_if(node)]
        while waiting:
            waiting += [inner for inner in _inline(owner, waiting.pop()) if _is_if(inner)]
        left = [node.name for node in owner if node.domain == "" and node.op_type in _CONTROL_FLOW]
        if left:
            raise SpeccBug(f"control flow that cannot be inlined: {', '.join(map(str, left))}")


def _is_if(node: ir.Node) -> bool:
    return node.op_type == "If" and node.domain == ""


def _inline(owner: ir.Graph, node: ir.Node) -> list[ir.Node]:
    """Replace one If by the nodes of its branches, which are returned, and a Where for each output."""
    condition = node.inputs[0]
    spliced: list[ir.Node] = []
    results: dict[str, list[ir.Value]] = {}
    for branch in ("then_branch", "else_branch"):
        body = node.attributes[branch].as_graph()
        results[branch] = list(body.outputs)
        inner = list(body)
        body.outputs.clear()
        body.remove(inner)
        owner.insert_before(node, inner)
        spliced += inner
    for output, then, otherwise in zip(node.outputs, results["then_branch"], results["else_branch"], strict=True):
        select = ir.node("Where", [condition, then, otherwise], name=f"{output.name}.selected")
        owner.insert_before(node, select)
        take_place(select.outputs[0], output)
    owner.remove(node, safe=True)
    return spliced


INLINE_CONDITIONALS: Final = LoweringPass("inline_conditionals", ("canonical",), (NO_CONTROL_FLOW,), _apply)
