"""What each kind of element can hold, and rounding to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import ml_dtypes
import numpy as np
import numpy.typing as npt

from specc.catalog.weight_formats import ScaleDtype, WeightElement

Float32Array: TypeAlias = npt.NDArray[np.float32]
CodeArray: TypeAlias = npt.NDArray[Any]

SCALE_DTYPES: Final[dict[ScaleDtype, np.dtype[Any]]] = {
    "f32": np.dtype(np.float32),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "fp8_e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
}


@dataclass(frozen=True)
class ElementRow:
    """One kind of element.

    Attributes:
        dtype: of the array that holds codes, one a byte; packing comes later.
        lowest, highest: the range of codes.
        integer: codes are integers, evenly spaced.
    """

    dtype: np.dtype[Any]
    lowest: float
    highest: float
    integer: bool

    @property
    def reach(self) -> float:
        """Half of the range: the largest magnitude of a group divided by it is the scale that clips nothing.

        Of integers it is 7.5 or 127.5: the half step that the positive end lacks is no more than rounding loses
        elsewhere, and every step is smaller than with 7 or 127.
        """
        return (self.highest - self.lowest) / 2


ELEMENTS: Final[dict[WeightElement, ElementRow]] = {
    "int4": ElementRow(np.dtype(np.int8), -8, 7, integer=True),
    "uint4": ElementRow(np.dtype(np.uint8), 0, 15, integer=True),
    "int7": ElementRow(np.dtype(np.int8), -64, 63, integer=True),
    "int8": ElementRow(np.dtype(np.int8), -128, 127, integer=True),
    "fp8_e4m3": ElementRow(np.dtype(ml_dtypes.float8_e4m3fn), -448, 448, integer=False),
    "fp4_e2m1": ElementRow(np.dtype(ml_dtypes.float4_e2m1fn), -6, 6, integer=False),
}


def rounded(values: Float32Array, element: WeightElement) -> Float32Array:
    """Return the nearest codes as float32, ties to even, values outside the range at its ends.

    Args:
        values: float32, weights divided by their scales, zero points added.
        element: of the codes.
    """
    copy = np.array(values, np.float32)
    round_in_place(copy, element)
    return copy


def round_in_place(values: Float32Array, element: WeightElement) -> None:
    """Put the nearest codes in the place of values, as `rounded` returns them."""
    row = ELEMENTS[element]
    np.minimum(values, np.float32(row.highest), out=values)
    np.maximum(values, np.float32(row.lowest), out=values)
    if row.integer:
        np.rint(values, out=values)
    else:
        values[...] = values.astype(row.dtype)


def rounded_scales(scales: Float32Array, dtype: ScaleDtype) -> Float32Array:
    """Return scales rounded to the dtype they are stored in, as float32; none becomes zero or infinite.

    Args:
        scales: float32, none negative.
        dtype: that they are stored in.

    Returns:
        float32 of the same shape; what would round to 0 is the dtype's smallest number, so that weights can be divided
        by their scale, and what would pass its largest is that.
    """
    stored = SCALE_DTYPES[dtype]
    limits = ml_dtypes.finfo(stored)
    # subnormal numbers of the narrow types are worth having; those of the wide ones are flushed by some processors
    least = limits.smallest_subnormal if dtype in ("f16", "fp8_e4m3") else limits.smallest_normal
    return np.clip(scales, np.float32(least), np.float32(limits.max)).astype(stored).astype(np.float32)
