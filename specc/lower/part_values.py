"""The initializers that stand for a quantized matrix in the graph."""

from __future__ import annotations

import onnx_ir as ir

from specc.errors import SpeccBug
from specc.graph.builder import declared
from specc.lower.bind_weights import shape_of
from specc.lower.weight_parts import parts_of_weight
from specc.plan.plan import WeightRow


def values_of_parts(backend: str, weight: ir.Value, row: WeightRow) -> dict[str, ir.Value]:
    """Return the initializers of a matrix's parts, by suffix, codes first.

    Args:
        backend: whose layout.
        weight: the initializer [N, K] of floats that they replace.
        row: how it is quantized.

    Raises:
        SpeccBug: it is not quantized, or the back end has no layout for its format.
    """
    if row.format is None:
        raise SpeccBug(f"{weight.name} is a float")
    rows, columns = shape_of(weight)
    parts = parts_of_weight(backend, (rows, columns), row.format)
    return {part.suffix: declared(f"{weight.name}.{part.suffix}", part.dtype, part.shape) for part in parts}


def parts_in_model(model: ir.Model, backend: str, weight: ir.Value, row: WeightRow) -> dict[str, ir.Value]:
    """Return the initializers of a matrix's parts as `values_of_parts`, those that the model has if it has them.

    An earlier pass may have declared them: a tied embedding is looked up and multiplied.
    """
    parts = values_of_parts(backend, weight, row)
    known = model.graph.initializers
    parts = {suffix: known.get(str(part.name), part) for suffix, part in parts.items()}
    known.update({str(part.name): part for part in parts.values()})
    return parts
