"""compressed-tensors' format `pack-quantized`: neighbours along K in a word, zero points along N; codes as code + 8.

Source: compressed-tensors, `pack_to_int32`: weight_packed int32 [N, ceil(K * bits / 32)], weight_scale [N, K/g] or
[N, 1], weight_zero_point int32 [ceil(N * bits / 32), K/g] where the scheme is not symmetric.
"""

from __future__ import annotations

from dataclasses import dataclass

from specc.catalog.weight_formats import ELEMENT_BITS, WeightFormat
from specc.quantize.elements import Float32Array
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
    bits = ELEMENT_BITS[form.element]
    codes = codes_from_words(packed.weight_packed, bits, axis=1, count=columns)
    zeros = packed.weight_zero_point
    if zeros is None:
        return QuantizedWeight(form, signed_codes(codes, form.element), packed.weight_scale)
    unsigned = codes_from_words(zeros, bits, axis=0, count=len(codes))
    return QuantizedWeight(
        form, signed_codes(codes, form.element), packed.weight_scale, signed_codes(unsigned, form.element)
    )


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
