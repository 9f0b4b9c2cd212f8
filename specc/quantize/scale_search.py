"""Scales of groups of weights: those that clip nothing, or of several the one of least squared error.

Groups lie as [groups, g, n]: g weights share each of groups * n scales. Their outputs n lie innermost, so that one
operation over many groups is one long loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal, TypeAlias

import numpy as np

from specc.catalog.weight_formats import WeightFormat
from specc.quantize.elements import ELEMENTS, Float32Array, round_in_place, rounded, rounded_scales

RoundingMethod: TypeAlias = Literal["rtn", "mse"]

SHRINKS: Final = tuple(1.0 - 0.025 * step for step in range(1, 21))
"""What the search multiplies the scale that clips nothing with: from 0.975 down to 0.5."""
PIECE_ELEMENTS: Final = 1 << 16
"""Weights that all scales are tried on before the next ones: they and their rounded selves stay in a core's cache."""


def group_scales(
    groups: Float32Array,
    form: WeightFormat,
    method: RoundingMethod,
    global_scale: np.float32 | None,
    importance: Float32Array | None,
) -> tuple[Float32Array, Float32Array]:
    """Return scales and zero points of groups.

    Args:
        groups: float32 [groups, g, n].
        form: what to store.
        method: `rtn`: scales clip nothing. `mse`: of these and 20 smaller ones, each group takes the scale of the
            least squared error; its error is never above that of `rtn`.
        global_scale: what scales will be multiplied by, or None.
        importance: float32 [groups, g], how much each squared error counts, or None: all alike.

    Returns:
        float32 [groups, n] each; zero points are whole numbers, all 0 where the format has none.
    """
    shape = groups.shape[0], groups.shape[2]
    scales, zeros = np.empty(shape, np.float32), np.empty(shape, np.float32)
    for which, outputs in _pieces(groups.shape):
        piece = groups[which, :, outputs]
        counts = None if importance is None else importance[which]
        scales[which, outputs], zeros[which, outputs] = _piece_scales(piece, form, method, global_scale, counts)
    return scales, zeros


def group_errors(
    groups: Float32Array,
    form: WeightFormat,
    steps: Float32Array,
    zeros: Float32Array,
    *,
    importance: Float32Array | None,
) -> Float32Array:
    """Return the sum of squared errors of each group, float32 [groups, n].

    Args:
        groups: float32 [groups, g, n].
        form: what to store.
        steps: float32 [groups, n], what codes are multiplied by: scales, global scale included.
        zeros: float32 [groups, n], zero points.
        importance: as in `group_scales`.
    """
    errors = np.empty(steps.shape, np.float32)
    for which, outputs in _pieces(groups.shape):
        piece = groups[which, :, outputs]
        counts = None if importance is None else importance[which]
        given = steps[which, outputs], zeros[which, outputs]
        errors[which, outputs] = _squared_errors(piece, form, *given, importance=counts, work=np.empty_like(piece))
    return errors


def group_range(groups: Float32Array) -> tuple[Float32Array, Float32Array]:
    """Return the least and largest weight of each group, float32 [groups, n]; 0 lies between them."""
    return np.minimum(groups.min(axis=1), 0), np.maximum(groups.max(axis=1), 0)


def scales_from_range(
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


def _pieces(shape: tuple[int, ...]) -> Iterator[tuple[slice, slice]]:
    """Yield slices of groups and of outputs that hold some ten thousand weights, or one group."""
    count, size, width = shape
    outputs = min(width, max(1, PIECE_ELEMENTS // size))
    groups = max(1, PIECE_ELEMENTS // (size * max(1, outputs)))
    for first in range(0, count, groups):
        for start in range(0, width, max(1, outputs)):
            yield slice(first, first + groups), slice(start, start + outputs)


def _piece_scales(
    groups: Float32Array,
    form: WeightFormat,
    method: RoundingMethod,
    global_scale: np.float32 | None,
    importance: Float32Array | None,
) -> tuple[Float32Array, Float32Array]:
    least, most = group_range(groups)
    scales, zeros = scales_from_range(least, most, form, global_scale)
    if method == "rtn":
        return scales, zeros
    work = np.empty(groups.shape, np.float32)
    whole = np.float32(1) if global_scale is None else global_scale
    errors = _squared_errors(groups, form, scales * whole, zeros, importance=importance, work=work)
    for shrink in SHRINKS:
        factor = np.float32(shrink)
        tried, tried_zeros = scales_from_range(least * factor, most * factor, form, global_scale)
        tried_errors = _squared_errors(groups, form, tried * whole, tried_zeros, importance=importance, work=work)
        better = tried_errors < errors
        scales, zeros = np.where(better, tried, scales), np.where(better, tried_zeros, zeros)
        errors = np.minimum(errors, tried_errors)
    return scales, zeros


def _squared_errors(
    groups: Float32Array,
    form: WeightFormat,
    steps: Float32Array,
    zeros: Float32Array,
    *,
    importance: Float32Array | None,
    work: Float32Array,
) -> Float32Array:
    """Return the sum of squared errors of each group; `work` is overwritten and of the groups' shape."""
    np.divide(groups, steps[:, np.newaxis], out=work)
    if form.zero_point:
        work += zeros[:, np.newaxis]
    round_in_place(work, form.element)
    if form.zero_point:
        work -= zeros[:, np.newaxis]
    work *= steps[:, np.newaxis]
    work -= groups
    work *= work
    if importance is not None:
        work *= importance[:, :, np.newaxis]
    return np.asarray(work.sum(axis=1))
