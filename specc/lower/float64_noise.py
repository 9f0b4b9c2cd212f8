"""Pass: compute the noise in float64: the same bits in half the time where 64-bit division is scalar."""

from __future__ import annotations

from typing import Final

import onnx_ir as ir

from specc.graph.noise import Float64Arithmetic, noise_functions
from specc.lower.lowering_pass import LoweringPass
from specc.lower.noise_body import replace_noise
from specc.plan.plan import GraphPlan


def _apply(model: ir.Model, graph: GraphPlan) -> None:
    replace_noise(model, noise_functions(graph, Float64Arithmetic()))


FLOAT64_NOISE: Final = LoweringPass("float64_noise", ("canonical",), ("noise is float64",), _apply)
