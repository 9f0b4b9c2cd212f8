"""What calibration learns of the inputs of a linear layer: the contract between it and the quantizers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from specc.errors import SpeccBug
from specc.quantize.elements import Float32Array


@dataclass(frozen=True, eq=False)
class ActivationStatistics:
    """Statistics of the inputs X [tokens, K] of one linear layer, or of several that share their inputs.

    Attributes:
        tokens: rows of X.
        mean_abs: float32 [K], mean of the magnitudes of each channel.
        max_abs: float32 [K], the largest of them.
        mean_square: float32 [K], mean of the squares: the diagonal of the Hessian.
        hessian: float32 [K, K], X^T X / tokens; None where no quantizer asked for it, since it is large.
    """

    tokens: int
    mean_abs: Float32Array
    max_abs: Float32Array
    mean_square: Float32Array
    hessian: Float32Array | None


class StatisticsSum:
    """Sums over batches of inputs, from which the statistics follow.

    Args:
        channels: K.
        hessian: whether X^T X is summed, too.
    """

    def __init__(self, channels: int, *, hessian: bool) -> None:
        self._tokens = 0
        self._sum_abs = np.zeros(channels)
        self._max_abs = np.zeros(channels, np.float32)
        self._sum_square = np.zeros(channels)
        self._products = np.zeros((channels, channels), np.float32) if hessian else None

    def add(self, inputs: Float32Array) -> None:
        """Add rows, float32 [tokens, K]; some hundreds at a time are added up fastest."""
        magnitudes = np.abs(inputs)
        self._tokens += len(inputs)
        self._sum_abs += magnitudes.sum(axis=0, dtype=np.float64)
        self._max_abs = np.maximum(self._max_abs, magnitudes.max(axis=0, initial=0.0))
        magnitudes *= magnitudes
        self._sum_square += magnitudes.sum(axis=0, dtype=np.float64)
        if self._products is not None:
            self._products += inputs.T @ inputs  # which BLAS does as a symmetric product

    def statistics(self) -> ActivationStatistics:
        """Return the statistics of all rows added.

        Raises:
            SpeccBug: there were none.
        """
        if self._tokens == 0:
            raise SpeccBug("statistics of no token")
        count = self._tokens
        return ActivationStatistics(
            tokens=count,
            mean_abs=(self._sum_abs / count).astype(np.float32),
            max_abs=self._max_abs,
            mean_square=(self._sum_square / count).astype(np.float32),
            hessian=None if self._products is None else self._products / np.float32(count),
        )


def output_error(weight: Float32Array, rounded: Float32Array, hessian: Float32Array) -> float:
    """Return the mean squared error of a layer's outputs, relative to their mean square.

    Args:
        weight: float32 [N, K].
        rounded: float32 [N, K], what replaces it.
        hessian: float32 [K, K], X^T X / tokens of its inputs.
    """
    difference = rounded - weight
    error = np.einsum("ij,ij->", difference @ hessian, difference, dtype=np.float64)
    whole = np.einsum("ij,ij->", weight @ hessian, weight, dtype=np.float64)
    return float(error / whole)
