"""Quantization of a matrix of floats: round to nearest, or with a search for the scales of least squared error."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from specc.catalog.weight_formats import WeightFormat
from specc.errors import SpeccBug
from specc.quantize.elements import ELEMENTS, CodeArray, Float32Array, round_in_place
from specc.quantize.quantized import QuantizedWeight
from specc.quantize.scale_search import SHRINKS, RoundingMethod, group_errors, group_scales, scales_from_range

BLOCK_ELEMENTS: Final = 1 << 20
"""Weights that are worked on at a time: the temporary arrays stay within some tens of megabytes."""


def quantized_from_float(
    weight: Float32Array,
    form: WeightFormat,
    method: RoundingMethod,
    importance: Float32Array | None = None,
    *,
    largest: float | None = None,
) -> QuantizedWeight:
    """Quantize a matrix.

    Args:
        weight: float32 [N, K], finite.
        form: what to store; its groups divide K.
        method: `rtn`: scales clip nothing. `mse`: of these and 20 smaller ones, each group takes the scale of the
            least squared error; its error is never above that of `rtn`.
        importance: float32 [K], how much the squared error of each input channel counts, as its mean squared
            activation; None: all alike. Only `mse` looks at it.
        largest: the magnitude that the one scale of the tensor, or of its scales, is made for, where other matrices
            share it; None: the matrix's own. Not below that.

    Returns:
        The quantized matrix. Scales were rounded to the format's scale_dtype before codes were chosen.

    Raises:
        SpeccBug: the weight is no finite float32 matrix, or the groups do not divide K.

    Checked by: tests/unit/quantize/test_quantized_from_float.py
    """
    if weight.ndim != 2 or weight.dtype != np.float32:
        raise SpeccBug(f"a weight {weight.dtype} {weight.shape}, expected float32 [N, K]")
    shape = form.scales_shape((weight.shape[0], weight.shape[1]))
    global_scale = global_scale_of(weight, form, largest)
    if form.granularity == "tensor" and largest is not None:
        limit = np.full((1, 1), largest, np.float32)
        scales, zeros = scales_from_range(-limit, limit, form, None)
    elif form.granularity == "tensor":
        scales, zeros = _tensor_scales(weight, form, method, importance)
    else:
        scales = np.empty(shape, np.float32)
        zeros = np.zeros(shape, np.float32)
        counts = None if importance is None else importance.reshape(shape[1], -1)
        for rows in row_blocks(weight.shape):
            groups = transposed_groups(weight[rows], shape[1])
            chosen, middles = group_scales(groups, form, method, global_scale, counts)
            scales[rows], zeros[rows] = chosen.T, middles.T
    return quantized_with_scales(weight, form, scales, zeros, global_scale)


def rounding_error(
    weight: Float32Array, form: WeightFormat, method: RoundingMethod, importance: Float32Array, factors: Float32Array
) -> float:
    """Return the squared error of a matrix whose input channels are multiplied by factors, rounded, and divided again.

    Args:
        weight: float32 [N, K].
        form: what to store; its groups divide K.
        method: how scales are chosen.
        importance: float32 [K], how much the squared error of each input channel counts.
        factors: float32 [K], positive.
    """
    if form.granularity == "tensor" or form.two_level:  # whose scales follow from the whole matrix
        scaled = weight * factors
        wrong = quantized_from_float(scaled, form, method, importance / factors**2).dequantized() - scaled
        return float((np.square(wrong / factors, out=wrong) @ importance).sum(dtype=np.float64))
    count = form.scales_shape((weight.shape[0], weight.shape[1]))[1]
    counts = (importance / (factors * factors)).reshape(count, -1)
    total = 0.0
    for rows in row_blocks(weight.shape):
        groups = transposed_groups(weight[rows], count)
        groups *= factors.reshape(count, -1, 1)
        scales, zeros = group_scales(groups, form, method, None, counts)
        total += float(group_errors(groups, form, scales, zeros, importance=counts).sum(dtype=np.float64))
    return total


def quantized_with_scales(
    weight: Float32Array,
    form: WeightFormat,
    scales: Float32Array,
    zero_points: Float32Array,
    global_scale: np.float32 | None,
) -> QuantizedWeight:
    """Return the nearest codes under given scales.

    Args:
        weight: float32 [N, K].
        form: what to store.
        scales: float32 [N, K/g], [N, 1] or [1, 1], numbers of the format's scale_dtype.
        zero_points: float32 of the same shape, whole numbers; all 0 where the format has none.
        global_scale: as in QuantizedWeight.
    """
    row = ELEMENTS[form.element]
    codes: CodeArray = np.empty(weight.shape, row.dtype)
    divisors = scales if global_scale is None else scales * global_scale
    for rows in row_blocks(weight.shape):
        part = slice(None) if len(scales) == 1 else rows
        groups = weight[rows].reshape(weight[rows].shape[0], scales.shape[1], -1)  # [n, groups, g]
        groups = groups / divisors[part, :, np.newaxis]
        if form.zero_point:
            groups += zero_points[part, :, np.newaxis]
        round_in_place(groups, form.element)
        codes[rows] = groups.reshape(weight[rows].shape).astype(row.dtype)
    stored_zeros = zero_points.astype(row.dtype) if form.zero_point else None
    return QuantizedWeight(form, codes, scales, stored_zeros, global_scale)


def row_blocks(shape: tuple[int, ...]) -> Iterator[slice]:
    """Yield slices of rows of a matrix that hold about a million elements each."""
    step = max(1, BLOCK_ELEMENTS // max(1, shape[1]))
    for start in range(0, shape[0], step):
        yield slice(start, min(start + step, shape[0]))


def transposed_groups(rows: Float32Array, count: int) -> Float32Array:
    """Return rows [n, K] as groups [groups, g, n], a copy."""
    return np.ascontiguousarray(rows.T).reshape(count, -1, len(rows))


def global_scale_of(weight: Float32Array, form: WeightFormat, largest: float | None = None) -> np.float32 | None:
    """Return the scale of scales, None where the format has none: the largest group's own becomes 448, e4m3's end."""
    if not form.two_level:
        return None
    if largest is None:
        largest = float(np.abs(weight).max(initial=0.0))
    reach = ELEMENTS[form.element].reach * ELEMENTS["fp8_e4m3"].highest
    return np.float32(largest / reach) if largest > 0 else np.float32(1.0)


def _tensor_scales(
    weight: Float32Array, form: WeightFormat, method: RoundingMethod, importance: Float32Array | None
) -> tuple[Float32Array, Float32Array]:
    """Return the one scale of a matrix, and its zero point, each float32 [1, 1]: errors are summed over row blocks."""
    least = np.full((1, 1), min(0.0, float(weight.min(initial=0.0))), np.float32)
    most = np.full((1, 1), max(0.0, float(weight.max(initial=0.0))), np.float32)
    shrinks = (1.0,) if method == "rtn" else (1.0, *SHRINKS)
    tried = [scales_from_range(least * np.float32(s), most * np.float32(s), form, None) for s in shrinks]
    if method == "rtn":
        return tried[0]
    errors = np.zeros(len(tried))
    counts = None if importance is None else importance[np.newaxis]
    for rows in row_blocks(weight.shape):
        groups = transposed_groups(weight[rows], 1)
        for index, (scale, zero) in enumerate(tried):
            scales, zeros = (np.full((1, groups.shape[2]), one) for one in (scale[0, 0], zero[0, 0]))
            errors[index] += group_errors(groups, form, scales, zeros, importance=counts).sum(dtype=np.float64)
    return tried[int(np.argmin(errors))]
