"""GPTQ: round one input channel after the other, and let the channels to come make up for each error."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from specc.catalog.weight_formats import WeightFormat
from specc.errors import SpeccBug
from specc.quantize.elements import ELEMENTS, Float32Array, rounded
from specc.quantize.quantized import QuantizedWeight
from specc.quantize.quantized_from_float import RoundingMethod, global_scale_of, group_scales, quantized_from_float
from specc.quantize.statistics import ActivationStatistics

DAMPING: Final = 0.01
"""Share of the Hessian's mean diagonal that is added to it, so that it has an inverse."""
BLOCK: Final = 128
"""Columns whose errors are gathered before the rest of the matrix is updated: one product in place of many."""


def quantized_with_compensation(
    weight: Float32Array, form: WeightFormat, statistics: ActivationStatistics, method: RoundingMethod
) -> QuantizedWeight:
    """Quantize a matrix so that the error of its outputs is small, not that of its weights.

    Args:
        weight: float32 [N, K].
        form: what to store. Scales of groups are chosen when their first channel's turn comes, those of channels and
            tensors before.
        statistics: of the layer's inputs, with the Hessian.
        method: how scales are chosen.

    Returns:
        The quantized matrix; its groups are neighbours, channels keep their order.

    Raises:
        SpeccBug: there is no Hessian of K channels.

    Source: arXiv:2210.17323, algorithm 1, without the ordering by activations.
    Checked by: tests/unit/quantize/test_error_compensation.py
    """
    columns = weight.shape[1]
    if statistics.hessian is None or statistics.hessian.shape != (columns, columns):
        raise SpeccBug(f"no Hessian of {columns} channels")
    factor, dead = _inverse_factor(statistics.hessian)
    work = weight.copy()
    work[:, dead] = 0
    group = form.group_size
    start = quantized_from_float(work, form, method, statistics.mean_square) if group is None else None
    global_scale = global_scale_of(work, form)
    shape = form.scales_shape((weight.shape[0], columns))
    scales = np.empty(shape, np.float32) if start is None else start.scales
    zeros = np.zeros(shape, np.float32)
    if start is not None and start.zero_points is not None:
        zeros = start.zero_points.astype(np.float32)
    codes = np.empty(weight.shape, ELEMENTS[form.element].dtype)
    step = BLOCK if group is None else group * max(1, BLOCK // group)
    for first in range(0, columns, step):
        block = slice(first, min(first + step, columns))
        part, errors = work[:, block], np.empty((len(weight), block.stop - first), np.float32)  # a view; [N, block]
        for index in range(block.stop - first):
            column = first + index
            if group is not None and column % group == 0:
                members = part[:, index : index + group][:, np.newaxis, :]  # [N, 1, g]
                counts = statistics.mean_square[column : column + group].reshape(1, 1, -1)
                chosen, middles = group_scales(members, form, method, global_scale, counts)
                scales[:, column // group], zeros[:, column // group] = chosen[:, 0], middles[:, 0]
            place = 0 if group is None else column // group
            steps = scales[:, place] if global_scale is None else scales[:, place] * global_scale
            whole = rounded(part[:, index] / steps + zeros[:, place], form.element)
            codes[:, column] = whole.astype(codes.dtype)
            error = (part[:, index] - (whole - zeros[:, place]) * steps) / factor[column, column]
            errors[:, index] = error
            part[:, index + 1 :] -= np.outer(error, factor[column, column + 1 : block.stop])
        work[:, block.stop :] -= errors @ factor[block, block.stop :]
    stored_zeros = zeros.astype(codes.dtype) if form.zero_point else None
    return QuantizedWeight(form, codes, scales, stored_zeros, global_scale)


def _inverse_factor(hessian: Float32Array) -> tuple[Float32Array, npt.NDArray[np.bool_]]:
    """Return U of the damped Hessian's inverse U^T U, upper triangular float32 [K, K], and the channels never used."""
    damped = hessian.astype(np.float64)
    diagonal = np.diagonal(damped).copy()
    dead = diagonal == 0
    index = np.arange(len(damped))
    damped[index, index] = np.where(dead, 1.0, diagonal) + DAMPING * max(float(diagonal.mean()), 1e-30)
    inverse = np.linalg.inv(damped)
    lower = np.linalg.cholesky((inverse + inverse.T) / 2)
    return np.ascontiguousarray(lower.T).astype(np.float32), dead
