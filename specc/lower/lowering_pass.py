"""What a lowering pass is: one whole-graph change, in one file, with what it needs and what holds afterwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import onnx_ir as ir

from specc.plan.plan import GraphPlan


@dataclass(frozen=True)
class LoweringPass:
    """A named change of a model in place.

    Attributes:
        name: verb and thing, as `float64_noise`.
        requires: properties the model must have: `canonical`, or what earlier passes ensure.
        ensures: properties that hold afterwards.
        apply: makes the change.
    """

    name: str
    requires: tuple[str, ...]
    ensures: tuple[str, ...]
    apply: Callable[[ir.Model, GraphPlan], None]
