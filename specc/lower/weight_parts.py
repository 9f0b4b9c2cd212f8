"""The tensors that a quantized matrix becomes for each back end: names, dtypes, shapes and bytes.

`docs/quantization.md` shows the layouts. A matrix is [N, K], N outputs and K inputs; groups of g lie along K.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from specc.catalog.weight_formats import ELEMENT_BITS, ScaleDtype, WeightElement, WeightFormat
from specc.errors import SpeccBug
from specc.graph.builder import DATA_TYPES, WeightDtype
from specc.lower.operators import ONNXRUNTIME, RTX, TENSORRT
from specc.quantize.elements import Float32Array
from specc.quantize.layouts.matmul_nbits import matmul_nbits_from_quantized
from specc.quantize.layouts.onnx_packed import onnx_packed_from_codes
from specc.quantize.quantized import QuantizedWeight

CODES: Final = "codes"
SCALES: Final = "scales"
ZERO_POINTS: Final = "zero_points"
GLOBAL_SCALE: Final = "global_scale"

RTX_DTYPES: Final[dict[WeightElement, WeightDtype]] = {
    "int4": "i4",
    "int8": "i8",
    "fp8_e4m3": "f8e4m3",
    "fp4_e2m1": "f4e2m1",
}
RTX_SCALES: Final[dict[ScaleDtype, WeightDtype]] = {"f16": "f16", "fp8_e4m3": "f8e4m3"}
"""TensorRT-RTX's and TensorRT's quantized schemes compute in float16."""


@dataclass(frozen=True)
class WeightPart:
    """One tensor of a quantized matrix.

    Attributes:
        suffix: its name is that of the weight, a dot, and this.
        dtype: of the initializer.
        shape: of the initializer.
        content: returns its bytes.
    """

    suffix: str
    dtype: WeightDtype
    shape: tuple[int, ...]
    content: Callable[[QuantizedWeight], bytes]


def parts_of_weight(backend: str, shape: tuple[int, int], form: WeightFormat) -> tuple[WeightPart, ...]:
    """Return the tensors of a matrix [N, K] for a back end, codes first.

    Raises:
        SpeccBug: the back end has no layout for the format; planning refuses those.
    """
    if (backend, form.granularity) == (ONNXRUNTIME, "group"):
        return _matmulnbits_parts(shape, form)
    if (backend, form.granularity, form.zero_point) == (ONNXRUNTIME, "channel", False):
        return _integer_parts(shape)
    if backend in (RTX, TENSORRT) and not form.zero_point and form.scale_dtype in RTX_SCALES:
        return _dequantizelinear_parts(shape, form)
    raise SpeccBug(f"{backend} has no layout for {form.title}")


def _matmulnbits_parts(shape: tuple[int, int], form: WeightFormat) -> tuple[WeightPart, ...]:
    """Return the inputs of com.microsoft.MatMulNBits: unsigned codes [N, K/g, g bits / 8], low bits first."""
    (rows, columns), bits = shape, ELEMENT_BITS[form.element]
    groups = form.scales_shape(shape)[1]
    width = columns // groups * bits // 8
    parts = (
        WeightPart(CODES, "u8", (rows, groups, width), lambda w: matmul_nbits_from_quantized(w).codes.tobytes()),
        WeightPart(SCALES, "f32", (rows, groups), lambda w: w.scales.tobytes()),
    )
    return (*parts, WeightPart(ZERO_POINTS, "u8", (rows, -(-groups * bits // 8)), _zero_points))[: 2 + form.zero_point]


def _integer_parts(shape: tuple[int, int]) -> tuple[WeightPart, ...]:
    """Return the inputs of com.microsoft.MatMulIntegerToFloat: codes [K, N], scales [N]."""
    rows, columns = shape
    return (
        WeightPart(CODES, "i8", (columns, rows), lambda w: np.ascontiguousarray(w.codes.T).tobytes()),
        WeightPart(SCALES, "f32", (rows,), lambda w: w.scales.tobytes()),
    )


def _zero_points(weight: QuantizedWeight) -> bytes:
    zero_points = matmul_nbits_from_quantized(weight).zero_points
    if zero_points is None:
        raise SpeccBug(f"{weight.format.title} without zero points")
    return zero_points.tobytes()


def _dequantizelinear_parts(shape: tuple[int, int], form: WeightFormat) -> tuple[WeightPart, ...]:
    """Return the inputs of DequantizeLinear along axis 0: codes [K, N], scales [K/g, N], [N] or one."""
    rows, columns = shape
    packed = ELEMENT_BITS[form.element] == 4

    def codes(weight: QuantizedWeight) -> bytes:
        transposed = np.ascontiguousarray(weight.codes.T)  # [K, N]
        return onnx_packed_from_codes(transposed).tobytes() if packed else transposed.tobytes()

    parts = [WeightPart(CODES, RTX_DTYPES[form.element], (columns, rows), codes)]
    groups = form.scales_shape(shape)[1]
    by_granularity: dict[str, tuple[int, ...]] = {"group": (groups, rows), "channel": (rows,), "tensor": ()}
    scales_shape = by_granularity[form.granularity]
    dtype = RTX_SCALES[form.scale_dtype]
    parts.append(WeightPart(SCALES, dtype, scales_shape, lambda w: _as_dtype(w.scales.T, dtype)))
    if form.two_level:
        parts.append(WeightPart(GLOBAL_SCALE, "f32", (), lambda w: _as_dtype(_global_scale(w), "f32")))
    return tuple(parts)


def _as_dtype(values: Float32Array, dtype: WeightDtype) -> bytes:
    return np.ascontiguousarray(values).astype(DATA_TYPES[dtype].numpy()).tobytes()


def _global_scale(weight: QuantizedWeight) -> Float32Array:
    if weight.global_scale is None:
        raise SpeccBug(f"{weight.format.title} without a global scale")
    return np.asarray(weight.global_scale)
