"""The layout of AutoGPTQ and GPTQModel: neighbours along K in a word, zero points along N.

Source: AutoGPTQ, `QuantLinear.pack`: qweight int32 [K * bits / 32, N], qzeros int32 [K/g, N * bits / 32], scales
float16 [K/g, N], g_idx int32 [K], the group of each input. Format `gptq` (version 1) stores zero points less one,
modulo 2**bits; `gptq_v2` stores them as they are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from specc.catalog.weight_formats import ELEMENT_BITS, WeightFormat
from specc.quantize.elements import CodeArray, Float32Array
from specc.quantize.layouts.nibbles import Uint8Array
from specc.quantize.layouts.unsigned import OFFSETS, signed_codes, unsigned_codes
from specc.quantize.layouts.words import Int32Array, codes_from_words, words_from_codes
from specc.quantize.quantized import QuantizedWeight


@dataclass(frozen=True, eq=False)
class Gptq:
    """The tensors of one linear layer without g_idx.

    Attributes:
        qweight: int32 [K * bits / 32, N].
        qzeros: int32 [K/g, ceil(N * bits / 32)].
        scales: float32 [K/g, N], numbers of float16.
        version: 1 or 2.
    """

    qweight: Int32Array
    qzeros: Int32Array
    scales: Float32Array
    version: int


def gptq_codes(packed: Gptq, bits: int) -> tuple[Uint8Array, Uint8Array]:
    """Return codes [N, K] and zero points [N, K/g] as the layout counts them: unsigned, from 0 on."""
    inputs, outputs = packed.qweight.shape[0] * 32 // bits, packed.qweight.shape[1]
    codes = codes_from_words(packed.qweight, bits, axis=0, count=inputs)  # [K, N]
    zeros = codes_from_words(packed.qzeros, bits, axis=1, count=outputs)  # [K/g, N]
    if packed.version == 1:
        zeros = (zeros + np.uint8(1)) & np.uint8(2**bits - 1)
    return np.ascontiguousarray(codes.T), np.ascontiguousarray(zeros.T)


def quantized_from_gptq(packed: Gptq, form: WeightFormat) -> QuantizedWeight | None:
    """Return the matrix that the tensors hold, its groups of neighbours along K.

    Returns:
        The matrix; None where the format has no zero points but some differ from the middle code.
    """
    codes, zeros = gptq_codes(packed, ELEMENT_BITS[form.element])
    scales = np.ascontiguousarray(packed.scales.T)
    if not form.zero_point:
        middle = (zeros == OFFSETS[form.element]).all()
        return QuantizedWeight(form, signed_codes(codes, form.element), scales) if middle else None
    return QuantizedWeight(form, signed_codes(codes, form.element), scales, signed_codes(zeros, form.element))


def gptq_from_quantized(quantized: QuantizedWeight, version: int) -> Gptq:
    """Return the tensors of a matrix of integers whose K is a multiple of 8, or of 4 with 8 bits."""
    form = quantized.format
    bits = ELEMENT_BITS[form.element]
    zeros = _zeros(quantized)
    if version == 1:
        zeros = (zeros - np.uint8(1)) & np.uint8(2**bits - 1)
    codes = unsigned_codes(quantized.codes, form.element)
    return Gptq(
        words_from_codes(codes.T, bits, axis=0),
        words_from_codes(zeros.T, bits, axis=1),
        np.ascontiguousarray(quantized.scales.T),
        version,
    )


def _zeros(quantized: QuantizedWeight) -> CodeArray:
    element = quantized.format.element
    if quantized.zero_points is not None:
        return unsigned_codes(quantized.zero_points, element)
    return np.full(quantized.scales.shape, OFFSETS[element], np.uint8)
