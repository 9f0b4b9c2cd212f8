"""Exchange of the bodies of the functions of noise; every body computes the same bits."""

from __future__ import annotations

import onnx_ir as ir

from specc.errors import SpeccBug


def replace_noise(model: ir.Model, functions: tuple[ir.Function, ...]) -> None:
    """Put each function in the place of the model's function of that name.

    Raises:
        SpeccBug: a graph that samples lacks one of them.
    """
    for function in functions:
        if function.identifier() not in model.functions:
            raise SpeccBug(f"the graph samples but has no function {function.identifier()}")
        model.functions[function.identifier()] = function
