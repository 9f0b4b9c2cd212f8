"""A product of integers as bundles have it: activations are rounded before it, its results scaled after it."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from specc.probe.small_model import MICROSOFT, Array

CONSTANTS: Final[dict[str, Array]] = {
    "axis": np.array([-1], np.int64),
    "step": np.array(1 / 127, np.float32),
    "zero": np.array(128, np.uint8),
}
"""Of all products of a model: the axis of rows, the width of a step and the code of 0.0."""


def integer_product(index: int, weights: list[str]) -> list[Any]:
    """Return the nodes of y{index} = x W: a largest magnitude for each row of x, codes, their product, its scaling.

    Args:
        index: tells the names of one product from those of another.
        weights: names of codes, int8 [K, N], and scales, float32 [N].
    """
    from onnx import helper

    codes, scales = weights
    return [
        helper.make_node("Abs", ["x"], [f"magnitude{index}"]),
        helper.make_node("ReduceMax", [f"magnitude{index}", "axis"], [f"largest{index}"], keepdims=1),
        helper.make_node("Div", ["x", f"largest{index}"], [f"unit{index}"]),
        helper.make_node("QuantizeLinear", [f"unit{index}", "step", "zero"], [f"rounded{index}"]),
        helper.make_node(
            "MatMulIntegerToFloat",
            [f"rounded{index}", codes, "step", scales, "zero"],
            [f"product{index}"],
            domain=MICROSOFT,
        ),
        helper.make_node("Mul", [f"product{index}", f"largest{index}"], [f"y{index}"]),
    ]
