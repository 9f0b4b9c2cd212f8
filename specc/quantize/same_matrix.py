"""A quantized matrix in another format that means the same numbers to the last bit: nothing is rounded again."""

from __future__ import annotations

from typing import Final

import numpy as np

from specc.catalog.weight_formats import WeightElement, WeightFormat
from specc.errors import SpeccBug
from specc.quantize.elements import ELEMENTS
from specc.quantize.quantized import QuantizedWeight

CODE_SHIFT: Final[dict[tuple[WeightElement, WeightElement], int]] = {
    ("int4", "int4"): 0,
    ("int4", "uint4"): 8,
    ("int4", "int7"): 0,
    ("int4", "int8"): 0,
    ("uint4", "uint4"): 0,
    ("uint4", "int8"): -8,
    ("int8", "int8"): 0,
    ("fp8_e4m3", "fp8_e4m3"): 0,
    ("fp4_e2m1", "fp4_e2m1"): 0,
}
"""What codes and zero points gain when elements of the first kind are stored as the second; others lose numbers."""


def means_the_same(stored: WeightFormat, wanted: WeightFormat) -> bool:
    """Return whether every matrix in one format is exactly one in the other.

    Elements may become wider and gain zero points, scales may become float32, and what shares a scale may become less:
    a scale that is repeated is the same scale.
    """
    if (stored.element, wanted.element) not in CODE_SHIFT or (stored.zero_point and not wanted.zero_point):
        return False
    if stored.two_level or wanted.two_level:
        return stored == wanted
    return wanted.scale_dtype in (stored.scale_dtype, "f32") and _is_finer(stored, wanted)


def same_matrix(quantized: QuantizedWeight, wanted: WeightFormat) -> QuantizedWeight:
    """Return a matrix in another format that means the same numbers.

    Args:
        quantized: in a format for which `means_the_same` holds.
        wanted: the format; its groups divide K.

    Raises:
        SpeccBug: the formats do not mean the same.
    """
    stored = quantized.format
    if stored == wanted:
        return quantized
    if not means_the_same(stored, wanted):
        raise SpeccBug(f"{stored.title} is not always {wanted.title}")
    rows, columns = wanted.scales_shape(quantized.shape)
    shape = len(quantized.scales), quantized.scales.shape[1]
    if columns % shape[1]:
        raise SpeccBug(f"{columns} groups do not divide {shape[1]}")

    def spread(values: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(values.repeat(rows // shape[0], axis=0).repeat(columns // shape[1], axis=1))

    shift, dtype = CODE_SHIFT[stored.element, wanted.element], ELEMENTS[wanted.element].dtype
    codes = quantized.codes if shift == 0 else quantized.codes.astype(np.int16) + np.int16(shift)
    zeros = None
    if wanted.zero_point:
        middles = np.zeros(shape, np.int16) if quantized.zero_points is None else quantized.zero_points.astype(np.int16)
        zeros = (spread(middles) + np.int16(shift)).astype(dtype)
    return QuantizedWeight(wanted, codes.astype(dtype), spread(quantized.scales), zeros)


def _is_finer(stored: WeightFormat, wanted: WeightFormat) -> bool:
    """Return whether each scale of the wanted format lies within one of the stored, for every shape of both."""
    if stored.group_size is not None:
        return wanted.group_size is not None and stored.group_size % wanted.group_size == 0
    order = ("tensor", "channel", "group")
    return order.index(stored.granularity) <= order.index(wanted.granularity)
