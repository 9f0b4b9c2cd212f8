"""Pass: keep TensorRT from fusing the noise with the sampler around it, which its builder does not finish in minutes.

The rounds of `specc::Noise` written out between TopK and a reduction over the vocabulary made TensorRT-RTX 1.7 search
for more than ten minutes. A running sum over an axis of one element returns its input bit for bit, and ends a fusion.
With one behind the noise and one before its inputs `position` and `token` the whole graph builds in seconds, whatever
the vocabulary; with fewer of them some combination of profiles does not. The rounds in the body of a Loop build as
fast, but a graph with a Loop may be outside what can be captured into a CUDA graph.
"""

from __future__ import annotations

from typing import Final

import onnx_ir as ir

from specc.errors import SpeccBug
from specc.graph.builder import DOMAIN, Builder
from specc.graph.noise import noise_kinds
from specc.lower.lowering_pass import LoweringPass
from specc.plan.plan import GraphPlan

ISOLATED: Final = "noise is not fused with its neighbours"
_ISOLATED_INPUTS: Final = ("position", "token")


def _apply(model: ir.Model, graph: GraphPlan) -> None:
    for kind in noise_kinds(graph):
        function = model.functions.get((DOMAIN, kind.name, ""))
        if function is None:
            raise SpeccBug(f"the graph samples but has no function {DOMAIN}::{kind.name}")
        _isolate(function)


def _isolate(function: ir.Function) -> None:
    first = function[0]
    for value in function.inputs:
        if value.name in _ISOLATED_INPUTS:
            users = value.uses()
            builder = Builder()
            isolated = _barrier(builder, value, f"{value.name}_isolated")
            for user, index in users:
                user.replace_input_with(index, isolated)
            function.insert_before(first, builder.nodes)
    builder = Builder()
    function.outputs[0] = _barrier(builder, function.outputs[0], "noise_isolated")
    function.extend(builder.nodes)


def _barrier(builder: Builder, value: ir.Value, name: str) -> ir.Value:
    """Return the value after a running sum over a new last axis of one element."""
    with builder.scope(name):
        column = builder.op("Unsqueeze", value, builder.i64(-1), name="column")
        summed = builder.op("CumSum", column, builder.i64_scalar(-1), name="sum")
        return builder.op("Squeeze", summed, builder.i64(-1), name="value")


ISOLATE_NOISE: Final = LoweringPass("isolate_noise", ("canonical",), (ISOLATED,), _apply)
