"""compressed-tensors' format `pack-quantized`: neighbours along K in a word, zero points along N; codes as code + 8.

Source: compressed-tensors, `pack_to_int32`: weight_packed int32 [N, ceil(K * bits / 32)], weight_scale [N, K/g] or
[N, 1], weight_zero_point int32 [ceil(N * bits / 32), K/g] where the scheme is not symmetric.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from specc.catalog.weight_formats import ELEMENT_BITS, WeightFormat
from specc.quantize.elements import Float32Array
from specc.quantize.layouts.nibbles import Uint8Array
from specc.quantize.layouts.unsigned import signed_codes, unsigned_codes
from specc.quantize.layouts.words import Int32Array, codes_from_words, words_from_codes
from specc.quantize.quantized import QuantizedWeight


@dataclass(frozen=True, eq=False)
class PackQuantized:
    """The tensors of one linear layer.

    Attributes:
        weight_packed: int32 [N, ceil(K * bits / 32)].
        weight_scale: float32 [N, K/g] or [N, 1].
        weight_zero_point: int32 [ceil(N * bits / 32), K/g]; None where the scheme is symmetric.
    """

    weight_packed: Int32Array
    weight_scale: Float32Array
    weight_zero_point: Int32Array | None


def quantized_from_pack_quantized(packed: PackQuantized, form: WeightFormat, columns: int) -> QuantizedWeight:
    """Return the matrix [N, columns] that the tensors hold.

    The layout calls 4-bit codes with zero points signed; both are 8 more here, which is the same matrix.
    """
    codes, zeros = pack_quantized_codes(packed, len(packed.weight_packed), columns)
    return QuantizedWeight(
        form,
        signed_codes(codes, form.element),
        packed.weight_scale,
        signed_codes(zeros, form.element) if form.zero_point else None,
    )


def pack_quantized_codes(packed: PackQuantized, rows: int, columns: int) -> tuple[Uint8Array, Uint8Array]:
    """Return codes [N, K] and zero points [N, K/g] as the layout counts them: unsigned, from 0 on."""
    bits = 4 if -(-columns // 8) == packed.weight_packed.shape[1] else 8
    codes = codes_from_words(packed.weight_packed, bits, axis=1, count=columns)
    if packed.weight_zero_point is None:
        return codes, np.full(packed.weight_scale.shape, 1 << (bits - 1), np.uint8)
    return codes, codes_from_words(packed.weight_zero_point, bits, axis=0, count=rows)


def pack_quantized_from_quantized(quantized: QuantizedWeight) -> PackQuantized:
    """Return the tensors of a matrix of integers."""
    element = quantized.format.element
    bits = ELEMENT_BITS[element]
    zeros = quantized.zero_points
    return PackQuantized(
        words_from_codes(unsigned_codes(quantized.codes, element), bits, axis=1),
        quantized.scales,
        None if zeros is None else words_from_codes(unsigned_codes(zeros, element), bits, axis=0),
    )
