"""Constant factors and soft caps of activations."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from specc.bundle.manifest import TensorDtype
from specc.graph.builder import DATA_TYPES, Builder


def scaled(builder: Builder, x: ir.Value, factor: float, dtype: TensorDtype, name: str) -> ir.Value:
    """Return factor * x, of any shape; x itself where the factor is 1."""
    if factor == 1.0:
        return x
    constant = builder.constant(np.array(factor, dtype=DATA_TYPES[dtype].numpy()), "factor")
    return builder.op("Mul", x, constant, name=name)


def soft_capped(builder: Builder, x: ir.Value, cap: float | None, dtype: TensorDtype, name: str) -> ir.Value:
    """Return cap * tanh(x / cap), of any shape; x itself without a cap."""
    if cap is None:
        return x
    inner = builder.op("Tanh", scaled(builder, x, 1.0 / cap, dtype, f"{name}.inner"), name=f"{name}.tanh")
    return scaled(builder, inner, cap, dtype, name)
