"""Quantization of a matrix of floats: round to nearest, or with a search for the scales of least squared error."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal, TypeAlias

import numpy as np

from specc.catalog.weight_formats import WeightFormat
from specc.errors import SpeccBug
from specc.quantize.elements import ELEMENTS, CodeArray, Float32Array, rounded, rounded_scales
from specc.quantize.quantized import QuantizedWeight

RoundingMethod: TypeAlias = Literal["rtn", "mse"]

SHRINKS: Final = tuple(1.0 - 0.025 * step for step in range(1, 21))
"""What the search multiplies the scale that clips nothing with: from 0.975 down to 0.5."""

BLOCK_ELEMENTS: Final = 1 << 20
"""Weights that are worked on at a time: the temporary arrays stay within some tens of megabytes."""


def quantized_from_float(
    weight: Float32Array, form: WeightFormat, method: RoundingMethod, importance: Float32Array | None = None
) -> QuantizedWeight:
    """Quantize a matrix.

    Args:
        weight: float32 [N, K], finite.
        form: what to store; its groups divide K.
        method: `rtn`: scales clip nothing. `mse`: of these and 20 smaller ones, each group takes the scale of the
            least squared error; its error is never above that of `rtn`.
        importance: float32 [K], how much the squared error of each input channel counts, as its mean squared
            activation; None: all alike. Only `mse` looks at it.

    Returns:
        The quantized matrix. Scales were rounded to the format's scale_dtype before codes were chosen.

    Raises:
        SpeccBug: the weight is no finite float32 matrix, or the groups do not divide K.

    Checked by: tests/unit/quantize/test_quantized_from_float.py
    """
    if weight.ndim != 2 or weight.dtype != np.float32:
        raise SpeccBug(f"a weight {weight.dtype} {weight.shape}, expected float32 [N, K]")
    shape = form.scales_shape((weight.shape[0], weight.shape[1]))
    global_scale = global_scale_of(weight, form)
    if form.granularity == "tensor":
        scales, zeros = _tensor_scales(weight, form, method, importance)
    else:
        scales = np.empty(shape, np.float32)
        zeros = np.zeros(shape, np.float32)
        for rows in row_blocks(weight.shape):
            groups = _grouped(weight[rows], shape[1])
            counts = None if importance is None else importance.reshape(1, shape[1], -1)
            scales[rows], zeros[rows] = group_scales(groups, form, method, global_scale, counts)
    return quantized_with_scales(weight, form, scales, zeros, global_scale)


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
        groups = _grouped(weight[rows], scales.shape[1]) / divisors[part, :, np.newaxis]  # [n, groups, g]
        groups += zero_points[part, :, np.newaxis]
        codes[rows] = rounded(groups, form.element).reshape(weight[rows].shape).astype(row.dtype)
    stored_zeros = zero_points.astype(row.dtype) if form.zero_point else None
    return QuantizedWeight(form, codes, scales, stored_zeros, global_scale)


def row_blocks(shape: tuple[int, ...]) -> Iterator[slice]:
    """Yield slices of rows of a matrix that hold about a million elements each."""
    step = max(1, BLOCK_ELEMENTS // max(1, shape[1]))
    for start in range(0, shape[0], step):
        yield slice(start, min(start + step, shape[0]))


def _grouped(rows: Float32Array, count: int) -> Float32Array:
    return rows.reshape(len(rows), count, -1)  # [n, groups, g]


def global_scale_of(weight: Float32Array, form: WeightFormat) -> np.float32 | None:
    """Return the scale of scales, None where the format has none: the largest group's own becomes 448, e4m3's end."""
    if not form.two_level:
        return None
    largest = float(np.abs(weight).max(initial=0.0))
    reach = ELEMENTS[form.element].reach * ELEMENTS["fp8_e4m3"].highest
    return np.float32(largest / reach) if largest > 0 else np.float32(1.0)


def _range(groups: Float32Array) -> tuple[Float32Array, Float32Array]:
    """Return the least and largest weight of each group, float32 [n, groups]; 0 lies between them."""
    return np.minimum(groups.min(axis=2), 0), np.maximum(groups.max(axis=2), 0)


def _scales_from_range(
    least: Float32Array, most: Float32Array, form: WeightFormat, global_scale: np.float32 | None
) -> tuple[Float32Array, Float32Array]:
    """Return scales and zero points (as float32) under which a range is not clipped."""
    row = ELEMENTS[form.element]
    half: Float32Array = np.float32(0.5) * (most - least) if form.zero_point else np.maximum(most, -least)
    wanted: Float32Array = half / np.float32(row.reach)
    if global_scale is not None:
        wanted /= global_scale
    scales = rounded_scales(wanted, form.scale_dtype)
    zeros = rounded(row.lowest - least / scales, form.element) if form.zero_point else np.zeros_like(scales)
    return scales, zeros


def group_scales(
    groups: Float32Array,
    form: WeightFormat,
    method: RoundingMethod,
    global_scale: np.float32 | None,
    importance: Float32Array | None,
) -> tuple[Float32Array, Float32Array]:
    """Return scales and zero points of groups.

    Args:
        groups: float32 [n, groups, g].
        form: what to store.
        method: as in `quantized_from_float`.
        global_scale: what scales will be multiplied by, or None.
        importance: float32 [1, groups, g], how much each squared error counts, or None.

    Returns:
        float32 [n, groups] each; zero points are whole numbers, all 0 where the format has none.
    """
    least, most = _range(groups)
    scales, zeros = _scales_from_range(least, most, form, global_scale)
    if method == "rtn":
        return scales, zeros
    errors = _squared_errors(groups, form, scales, zeros, global_scale, importance=importance)
    for shrink in SHRINKS:
        factor = np.float32(shrink)
        tried, tried_zeros = _scales_from_range(least * factor, most * factor, form, global_scale)
        tried_errors = _squared_errors(groups, form, tried, tried_zeros, global_scale, importance=importance)
        better = tried_errors < errors
        scales, zeros = np.where(better, tried, scales), np.where(better, tried_zeros, zeros)
        errors = np.minimum(errors, tried_errors)
    return scales, zeros


def _squared_errors(
    groups: Float32Array,
    form: WeightFormat,
    scales: Float32Array,
    zeros: Float32Array,
    global_scale: np.float32 | None,
    *,
    importance: Float32Array | None,
) -> Float32Array:
    """Return the sum of squared errors of each group, float32 [n, groups]."""
    steps = (scales if global_scale is None else scales * global_scale)[:, :, np.newaxis]
    offsets = zeros[:, :, np.newaxis]
    errors = (rounded(groups / steps + offsets, form.element) - offsets) * steps - groups
    errors *= errors
    if importance is not None:
        errors *= importance
    return np.asarray(errors.sum(axis=2))


def _tensor_scales(
    weight: Float32Array, form: WeightFormat, method: RoundingMethod, importance: Float32Array | None
) -> tuple[Float32Array, Float32Array]:
    """Return the one scale of a matrix, and its zero point, each float32 [1, 1]: errors are summed over row blocks."""
    least = np.full((1, 1), min(0.0, float(weight.min(initial=0.0))), np.float32)
    most = np.full((1, 1), max(0.0, float(weight.max(initial=0.0))), np.float32)
    shrinks = (1.0,) if method == "rtn" else (1.0, *SHRINKS)
    tried = [_scales_from_range(least * np.float32(s), most * np.float32(s), form, None) for s in shrinks]
    if method == "rtn":
        return tried[0]
    errors = np.zeros(len(tried))
    for rows in row_blocks(weight.shape):
        groups = _grouped(weight[rows], 1)
        weights = None if importance is None else importance.reshape(1, 1, -1)
        for index, (scales, zeros) in enumerate(tried):
            errors[index] += _squared_errors(groups, form, scales, zeros, None, importance=weights).sum(
                dtype=np.float64
            )
    return tried[int(np.argmin(errors))]
