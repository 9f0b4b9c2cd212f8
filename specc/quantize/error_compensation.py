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
from specc.quantize.quantized_from_float import global_scale_of, quantized_from_float
from specc.quantize.scale_search import RoundingMethod, group_scales
from specc.quantize.statistics import ActivationStatistics

DAMPING: Final = 0.01
"""Share of the Hessian's mean diagonal that is added to it, so that it has an inverse."""
BLOCK: Final = 32
"""Channels whose errors are gathered before the rest of the matrix is updated: one product in place of many."""
LEAF: Final = 64
"""Rows of a triangular matrix that are inverted directly."""


@dataclass(frozen=True, eq=False)
class Compensation:
    """What the inputs of a layer say about making up for errors; one serves all matrices of the same inputs.

    Attributes:
        factor: upper triangular float32 [K, K], U of the damped Hessian's inverse U^T U.
        dead: bool [K], channels that no token ever used.
        mean_square: float32 [K], of the activations.
    """

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
    damped = statistics.hessian[::-1, ::-1].astype(np.float64)
    diagonal = np.diagonal(damped).copy()
    dead = diagonal == 0
    index = np.arange(len(damped))
    damped[index, index] = np.where(dead, 1.0, diagonal) + DAMPING * max(float(diagonal.mean()), 1e-30)
    factor = _lower_inverse(np.linalg.cholesky(damped))[::-1, ::-1]
    return Compensation(np.ascontiguousarray(factor, np.float32), dead[::-1], statistics.mean_square)


def quantized_with_compensation(
    weight: Float32Array, form: WeightFormat, compensation: Compensation, method: RoundingMethod
) -> QuantizedWeight:
    """Quantize a matrix so that the error of its outputs is small, not that of its weights.

    Args:
        weight: float32 [N, K].
        form: what to store. Scales of groups are chosen when their first channel's turn comes, those of channels and
            tensors before.
        compensation: of the layer's inputs.
        method: how scales are chosen.

    Returns:
        The quantized matrix; its groups are neighbours, channels keep their order.

    Raises:
        SpeccBug: the inputs have not K channels.

    Source: arXiv:2210.17323, algorithm 1, without the ordering by activations.
    Checked by: tests/unit/quantize/test_error_compensation.py
    """
    columns, factor = weight.shape[1], compensation.factor
    if len(factor) != columns:
        raise SpeccBug(f"a compensation of {len(factor)} channels for {columns}")
    work = np.ascontiguousarray(weight.T)  # [K, N]: the weights of a channel lie side by side
    work[compensation.dead] = 0
    global_scale = global_scale_of(work, form)
    scales, zeros = _first_scales(work, form, compensation, method)  # [K/g, N], [1, N] or [1, 1]
    codes = np.empty(work.shape, ELEMENTS[form.element].dtype)
    group = form.group_size
    step = BLOCK if group is None or group % BLOCK == 0 else group
    for first in range(0, columns, step):
        block = slice(first, min(first + step, columns))
        errors = np.empty_like(work[block])  # [b, N]
        for column in range(block.start, block.stop):
            if group is not None and column % group == 0:
                members = slice(column, column + group)
                counts = compensation.mean_square[np.newaxis, members]
                chosen = group_scales(work[np.newaxis, members], form, method, global_scale, counts)
                scales[column // group], zeros[column // group] = chosen[0][0], chosen[1][0]
            place = 0 if group is None else column // group
            steps = scales[place] if global_scale is None else scales[place] * global_scale
            nearest = work[column] / steps + zeros[place]
            round_in_place(nearest, form.element)
            codes[column] = nearest
            errors[column - first] = (work[column] - (nearest - zeros[place]) * steps) / factor[column, column]
            behind = slice(column + 1, block.stop)
            work[behind] -= factor[column, behind, np.newaxis] * errors[column - first]
        work[block.stop :] -= factor[block, block.stop :].T @ errors
    stored_zeros = _transposed(zeros).astype(codes.dtype) if form.zero_point else None
    return QuantizedWeight(form, _transposed(codes), _transposed(scales), stored_zeros, global_scale)


def _first_scales(
    work: Float32Array, form: WeightFormat, compensation: Compensation, method: RoundingMethod
) -> tuple[Float32Array, Float32Array]:
    """Return scales and zero points, transposed: of channels and tensors as they stay, of groups still empty."""
    if form.group_size is not None:
        shape = len(work) // form.group_size, work.shape[1]
        return np.zeros(shape, np.float32), np.zeros(shape, np.float32)
    start = quantized_from_float(_transposed(work), form, method, compensation.mean_square)
    zeros = np.zeros_like(start.scales) if start.zero_points is None else start.zero_points.astype(np.float32)
    return _transposed(start.scales), _transposed(zeros)


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
