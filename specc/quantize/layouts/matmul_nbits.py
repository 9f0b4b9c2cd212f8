"""ONNX Runtime's contrib operator MatMulNBits: blocks of a row's codes, unsigned.

Source: ONNX Runtime's ContribOperators.md, MatMulNBits: B is [N, K/g, g * bits / 8], the first code in the low bits;
scales [N, K/g]; zero_points packed the same way [N, ceil(K/g * bits / 8)], and 2**(bits - 1) where absent.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from specc.catalog.weight_formats import ELEMENT_BITS, WeightFormat
from specc.errors import SpeccBug
from specc.quantize.elements import Float32Array
from specc.quantize.layouts.nibbles import Uint8Array, bytes_from_nibbles, nibbles_from_bytes
from specc.quantize.layouts.unsigned import signed_codes, unsigned_codes
from specc.quantize.quantized import QuantizedWeight


@dataclass(frozen=True, eq=False)
class MatMulNBits:
    """The constant inputs of the operator.

    Attributes:
        codes: uint8 [N, K/g, g * bits / 8]: `B`.
        scales: float32 [N, K/g].
        zero_points: uint8 [N, ceil(K/g * bits / 8)], or None: 8 or 128 everywhere.
    """

    codes: Uint8Array
    scales: Float32Array
    zero_points: Uint8Array | None


def matmul_nbits_from_quantized(quantized: QuantizedWeight) -> MatMulNBits:
    """Return a matrix of integers in groups, or with a scale a channel (one block a row), as the operator takes it.

    Raises:
        SpeccBug: floats, or one scale for the whole matrix.
    """
    form = quantized.format
    if form.granularity == "tensor":
        raise SpeccBug(f"MatMulNBits has no {form.title}")
    rows, count = quantized.scales.shape
    codes = unsigned_codes(quantized.codes, form.element).reshape(rows, count, -1)
    zeros = None if quantized.zero_points is None else unsigned_codes(quantized.zero_points, form.element)
    if ELEMENT_BITS[form.element] == 4:
        codes = bytes_from_nibbles(codes)
        fill = ((0, 0), (0, count % 2))  # with the middle code, as ONNX Runtime's own quantizer fills the last byte
        zeros = None if zeros is None else bytes_from_nibbles(np.pad(zeros, fill, constant_values=8))
    return MatMulNBits(codes, quantized.scales, zeros)


def quantized_from_matmul_nbits(packed: MatMulNBits, form: WeightFormat) -> QuantizedWeight:
    """Return the inverse."""
    rows, count = packed.scales.shape
    codes, zeros = packed.codes, packed.zero_points
    if ELEMENT_BITS[form.element] == 4:
        codes = nibbles_from_bytes(codes)
        zeros = None if zeros is None else nibbles_from_bytes(zeros)[:, :count]
    return QuantizedWeight(
        form,
        signed_codes(codes.reshape(rows, -1), form.element),
        packed.scales,
        None if zeros is None else signed_codes(zeros, form.element),
    )
