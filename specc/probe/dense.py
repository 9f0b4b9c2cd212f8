"""Large matrix products by ONNX Runtime of arrays that stay in the caches: how fast the cores multiply."""

from __future__ import annotations

from functools import partial
from typing import Final, Literal

import numpy as np

from specc.probe.clock import best_seconds
from specc.probe.result import ProductRate
from specc.probe.small_model import Tensor, imported_onnxruntime, session_from_nodes

NODES: Final[tuple[tuple[Literal["f32", "int8"], str, str, str, str], ...]] = (
    ("f32", "MatMul", "float32", "float32", "float32"),
    ("int8", "MatMulInteger", "uint8", "int8", "int32"),
)
"""Type, operator, and the types of activations, weights and results."""


def dense_products(n: int, threads: int, seconds: float) -> tuple[ProductRate, ...]:
    """Return the rates of f32 and int8 products.

    Args:
        n: rows, columns and depth.
        threads: of one product.
        seconds: for each number.

    Raises:
        SpeccError: SPC740 ONNX Runtime is not installed.
    """
    from onnx import helper

    library, rates = imported_onnxruntime(), []
    for dtype, operator, left, right, result in NODES:
        session = session_from_nodes(
            [helper.make_node(operator, ["a", "b"], ["c"])],
            [Tensor("a", left, (n, n))],
            [Tensor("c", result, (n, n))],
            {"b": np.ones((n, n), np.dtype(right))},
            threads,
        )
        taken = best_seconds(partial(session.run, None, {"a": np.ones((n, n), np.dtype(left))}), seconds)
        rates.append(ProductRate(dtype, 2 * n**3 / taken, f"ONNX Runtime {library.__version__}"))
    return tuple(rates)
