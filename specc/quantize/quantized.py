"""A quantized matrix in logical form, whatever layout it came from or goes to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from specc.catalog.weight_formats import WeightFormat
from specc.errors import SpeccBug
from specc.quantize.elements import ELEMENTS, SCALE_DTYPES, CodeArray, Float32Array


@dataclass(frozen=True, eq=False)
class QuantizedWeight:
    """A matrix [N, K] of N outputs and K inputs, as Hugging Face names them: weight = (code - zero point) * scale.

    Attributes:
        format: what is stored.
        codes: [N, K], one code a byte: int8 for `int4` and `int8`, uint8 for `uint4`, ml_dtypes' float8_e4m3fn and
            float4_e2m1fn for the floats.
        scales: float32 [N, K/g], [N, 1] or [1, 1], each a number of the format's scale_dtype.
        zero_points: of the shape of scales and the dtype of codes, or None where the format has none.
        global_scale: float32, what the scales are multiplied by; None unless the format has two levels.

    Raises:
        SpeccBug: parts that do not fit each other.
    """

    format: WeightFormat
    codes: CodeArray
    scales: Float32Array
    zero_points: CodeArray | None = None
    global_scale: np.float32 | None = None

    def __post_init__(self) -> None:
        row = ELEMENTS[self.format.element]
        if self.codes.ndim != 2 or self.codes.dtype != row.dtype:
            raise SpeccBug(f"codes {self.codes.dtype} {self.codes.shape}, expected {row.dtype} [N, K]")
        shape = self.format.scales_shape((self.codes.shape[0], self.codes.shape[1]))
        if self.scales.shape != shape or self.scales.dtype != np.float32:
            raise SpeccBug(f"scales {self.scales.dtype} {self.scales.shape}, expected float32 {shape}")
        stored = self.scales.astype(SCALE_DTYPES[self.format.scale_dtype]).astype(np.float32)
        if not (np.array_equal(stored, self.scales) and np.isfinite(stored).all()):
            raise SpeccBug(f"scales that are not finite numbers of {self.format.scale_dtype}")
        zeros = self.zero_points
        if (zeros is not None) != self.format.zero_point or (self.global_scale is not None) != self.format.two_level:
            raise SpeccBug(f"{self.format.title}, with zero points {zeros} and global scale {self.global_scale}")
        if zeros is not None and (zeros.shape != shape or zeros.dtype != row.dtype):
            raise SpeccBug(f"zero points {zeros.dtype} {zeros.shape}, expected {row.dtype} {shape}")
        for values in (self.codes, zeros):
            if values is None or not row.integer or not values.size:
                continue
            if values.min() < row.lowest or values.max() > row.highest:
                raise SpeccBug(f"codes or zero points of {self.format.title} outside {row.lowest} to {row.highest}")

    @property
    def shape(self) -> tuple[int, int]:
        """N and K."""
        return self.codes.shape[0], self.codes.shape[1]

    def effective_scales(self) -> Float32Array:
        """Return what codes are multiplied by, float32 of the shape of scales: the global scale is in it."""
        return self.scales if self.global_scale is None else self.scales * self.global_scale

    def dequantized(self) -> Float32Array:
        """Return the matrix as float32 [N, K]: code minus zero point, exact, times scale, rounded once."""
        numbers = self.codes.astype(np.float32)
        groups = numbers.reshape(self._groups())  # [N, groups, g], a view
        if self.zero_points is not None:
            groups -= self.zero_points.astype(np.float32)[:, :, np.newaxis]
        groups *= self.effective_scales()[:, :, np.newaxis]
        return numbers

    def _groups(self) -> tuple[int, int, int]:
        rows, columns = self.shape
        count = self.scales.shape[1]
        return rows, count, columns // count


def stacked(weights: Sequence[QuantizedWeight]) -> QuantizedWeight:
    """Return the rows of several matrices of one format as one matrix.

    Raises:
        SpeccBug: they have other formats, or scales that whole matrices share.
    """
    first = weights[0]
    if len(weights) == 1:
        return first
    form = first.format
    if any(weight.format != form for weight in weights) or form.granularity == "tensor" or form.two_level:
        raise SpeccBug(f"matrices of {' and '.join(weight.format.title for weight in weights)} as one")
    zeros = [weight.zero_points for weight in weights if weight.zero_points is not None]
    return QuantizedWeight(
        form,
        np.concatenate([weight.codes for weight in weights]),
        np.concatenate([weight.scales for weight in weights]),
        np.concatenate(zeros) if zeros else None,
    )
