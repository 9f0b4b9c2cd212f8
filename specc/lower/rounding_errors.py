"""What rounding does to the matrices of a model: squared differences from the checkpoint's numbers, class by class."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from specc.bundle.rounding import RoundedMatrices, Rounding
from specc.plan.elements import weight_class
from specc.quantize.elements import Float32Array
from specc.quantize.quantized import QuantizedWeight

ROWS: Final = 1024
"""Expanded at a time."""


@dataclass
class _Sum:
    differences: float = 0.0
    numbers: float = 0.0
    count: int = 0
    worst: str = ""
    worst_error: float = -1.0


class RoundingErrors:
    """Sums over the matrices that were rounded."""

    def __init__(self) -> None:
        self._sums: dict[tuple[str, str, str], _Sum] = {}

    def add(self, name: str, stored: str, weight: Float32Array, quantized: QuantizedWeight) -> None:
        """Count one matrix.

        Args:
            name: canonical.
            stored: how the checkpoint stores it.
            weight: float32 [N, K], what it means there.
            quantized: the same, rounded.
        """
        differences = numbers = 0.0
        for start in range(0, len(weight), ROWS):
            rows = slice(start, start + ROWS)
            given = weight[rows]
            difference = (_rows(quantized, rows).dequantized() - given).ravel()
            differences += float(np.dot(difference, difference))
            numbers += float(np.dot(given.ravel(), given.ravel()))
        key = weight_class(name, weight.shape), stored, quantized.format.title
        total = self._sums.setdefault(key, _Sum())
        total.differences, total.numbers = total.differences + differences, total.numbers + numbers
        total.count += 1
        error = _relative(differences, numbers)
        if error > total.worst_error:
            total.worst, total.worst_error = name, error

    def listed(self) -> Rounding:
        """Return the sums, in the order of the first matrix of each."""
        return Rounding(
            tuple(
                RoundedMatrices(
                    *key, total.count, _relative(total.differences, total.numbers), total.worst, total.worst_error
                )
                for key, total in self._sums.items()
            )
        )


def _relative(differences: float, numbers: float) -> float:
    return math.sqrt(differences / numbers) if numbers else 0.0


def _rows(quantized: QuantizedWeight, rows: slice) -> QuantizedWeight:
    shared = len(quantized.scales) == 1
    zeros = quantized.zero_points
    return replace(
        quantized,
        codes=quantized.codes[rows],
        scales=quantized.scales if shared else quantized.scales[rows],
        zero_points=zeros if zeros is None or shared else zeros[rows],
    )
