"""GPTQ: round one input channel after the other, and let the channels to come make up for each error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from specc.catalog.weight_formats import WeightFormat
from specc.errors import SpeccBug
from specc.quantize.elements import ELEMENTS, Float32Array, round_in_place
from specc.quantize.quantized import QuantizedWeight
from specc.quantize.quantized_from_float import quantized_from_float
from specc.quantize.scale_search import RoundingMethod
from specc.quantize.statistics import ActivationStatistics

DAMPING: Final = 0.05
"""Share of the Hessian's mean diagonal that is added to it, so that it has an inverse."""
BLOCK: Final = 32
"""Channels whose errors are gathered before the rest of the matrix is updated: one product in place of many."""
LEAF: Final = 64
"""Rows of a triangular matrix that are inverted directly."""


@dataclass(frozen=True, eq=False)
class Compensation:
    """What the inputs of a layer say about making up for errors; one serves all matrices of the same inputs.

    Attributes:
        order: int64 [K], channels in the order in which they are rounded: those of the largest activations first, while
            most others are left to make up for them.
        factor: upper triangular float32 [K, K], U of the damped Hessian's inverse U^T U, channels in that order.
        dead: bool [K], channels that no token ever used.
        mean_square: float32 [K], of the activations.
    """

    order: npt.NDArray[np.int64]
    factor: Float32Array
    dead: npt.NDArray[np.bool_]
    mean_square: Float32Array


def compensation_from_statistics(statistics: ActivationStatistics) -> Compensation:
    """Return the compensation of a layer's inputs.

    Raises:
        SpeccBug: there is no Hessian.

    With P the reversal of channels and P H P = L L^T, U is P L^-1 P: one decomposition, one triangular inverse.
    """
    if statistics.hessian is None:
        raise SpeccBug("error compensation without a Hessian")
    diagonal = np.diagonal(statistics.hessian).astype(np.float64)
    order = np.argsort(-diagonal, kind="stable")
    damped = statistics.hessian[np.ix_(order[::-1], order[::-1])].astype(np.float64)
    dead = diagonal == 0
    index = np.arange(len(damped))
    damped[index, index] = np.where(dead, 1.0, diagonal)[order[::-1]] + DAMPING * max(float(diagonal.mean()), 1e-30)
    factor = _lower_inverse(np.linalg.cholesky(damped))[::-1, ::-1]
    return Compensation(order, np.ascontiguousarray(factor, np.float32), dead, statistics.mean_square)


def quantized_with_compensation(
    weight: Float32Array, form: WeightFormat, compensation: Compensation, method: RoundingMethod
) -> QuantizedWeight:
    """Quantize a matrix so that the error of its outputs is small, not that of its weights.

    Args:
        weight: float32 [N, K].
        form: what to store. Scales are chosen before the first channel is rounded, for the weights as they were.
        compensation: of the layer's inputs.
        method: how scales are chosen.

    Returns:
        The quantized matrix; its groups are neighbours, channels keep their places.

    Raises:
        SpeccBug: the inputs have not K channels.

    Source: arXiv:2210.17323, algorithm 1; the order by activations is that of its authors' code (`act_order`), with
    groups that stay where they are.
    Checked by: tests/unit/quantize/test_error_compensation.py
    """
    columns, factor, order = weight.shape[1], compensation.factor, compensation.order
    if len(factor) != columns:
        raise SpeccBug(f"a compensation of {len(factor)} channels for {columns}")
    living = np.where(compensation.dead, np.float32(0), weight)
    start = quantized_from_float(living, form, method, compensation.mean_square)
    divisors = start.scales if start.global_scale is None else start.scales * start.global_scale
    # [K/g, N], [1, N] or [1, 1]: the weights of a channel lie side by side
    steps = _transposed(divisors)
    zeros = np.zeros_like(steps) if start.zero_points is None else _transposed(start.zero_points).astype(np.float32)
    places = order // (columns if form.group_size is None else form.group_size)
    work = np.ascontiguousarray(living.T[order])  # [K, N]
    codes = np.empty(work.shape, ELEMENTS[form.element].dtype)
    for first in range(0, columns, BLOCK):
        block = slice(first, min(first + BLOCK, columns))
        errors = np.empty_like(work[block])  # [b, N]
        for row in range(block.start, block.stop):
            step, zero = steps[places[row]], zeros[places[row]]
            nearest = work[row] / step + zero
            round_in_place(nearest, form.element)
            codes[order[row]] = nearest
            errors[row - first] = (work[row] - (nearest - zero) * step) / factor[row, row]
            behind = slice(row + 1, block.stop)
            work[behind] -= factor[row, behind, np.newaxis] * errors[row - first]
        work[block.stop :] -= factor[block, block.stop :].T @ errors
    return QuantizedWeight(form, _transposed(codes), start.scales, start.zero_points, start.global_scale)


def _transposed(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.ascontiguousarray(values.T)


def _lower_inverse(lower: npt.NDArray[np.floating[Any]]) -> npt.NDArray[np.floating[Any]]:
    """Return the inverse of a lower triangular matrix, by halves: almost all of it is products of matrices."""
    size = len(lower)
    if size <= LEAF:
        return np.asarray(np.linalg.inv(lower))
    half = size // 2
    inverse = np.zeros_like(lower)
    inverse[:half, :half] = _lower_inverse(lower[:half, :half])
    inverse[half:, half:] = _lower_inverse(lower[half:, half:])
    inverse[half:, :half] = -inverse[half:, half:] @ (lower[half:, :half] @ inverse[:half, :half])
    return inverse
