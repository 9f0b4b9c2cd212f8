"""Pass: give the values of functions names that no value of the graph has.

TensorRT-RTX 1.7's parser keeps one space of names: after a call, a node of the graph that uses a value of the same name
as one inside the function gets the function's value, and no word is said.
"""

from __future__ import annotations

from typing import Final

import onnx_ir as ir

from specc.lower.inline_conditionals import NO_CONTROL_FLOW
from specc.lower.lowering_pass import LoweringPass
from specc.plan.plan import GraphPlan

SEPARATE: Final = "functions have names of their own"


def _apply(model: ir.Model, graph: GraphPlan) -> None:  # noqa: ARG001 - the form of a pass
    for function in model.functions.values():
        for node in function:
            for value in node.outputs:
                value.name = f"{function.name}.{value.name}"


SEPARATE_NAMES: Final = LoweringPass("separate_names", (NO_CONTROL_FLOW,), (SEPARATE,), _apply)
