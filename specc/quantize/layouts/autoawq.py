"""AutoAWQ's layout `gemm`: eight outputs of one input in a word, in the order its kernels want.

Source: AutoAWQ, `WQLinear_GEMM.from_linear`: qweight int32 [K, N/8], qzeros int32 [K/g, N/8], scales float16 [K/g, N];
weight = (code - zero point) * scale, and nibble i of a word is output ORDER[i] of its eight.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from specc.catalog.weight_formats import WeightFormat
from specc.quantize.elements import Float32Array
from specc.quantize.layouts.nibbles import Uint8Array
from specc.quantize.layouts.words import Int32Array, codes_from_words, words_from_codes
from specc.quantize.quantized import QuantizedWeight

ORDER: Final = (0, 2, 4, 6, 1, 3, 5, 7)


@dataclass(frozen=True, eq=False)
class AutoAwq:
    """The tensors of one linear layer.

    Attributes:
        qweight: int32 [K, N/8].
        qzeros: int32 [K/g, N/8].
        scales: float32 [K/g, N], numbers of float16.
    """

    qweight: Int32Array
    qzeros: Int32Array
    scales: Float32Array


def quantized_from_autoawq(packed: AutoAwq, form: WeightFormat) -> QuantizedWeight:
    """Return a matrix of `uint4` in groups, or with a scale a channel, that the tensors hold."""
    codes, zeros = _unpacked(packed.qweight), _unpacked(packed.qzeros)
    return QuantizedWeight(form, codes, np.ascontiguousarray(packed.scales.T), zeros)


def autoawq_from_quantized(quantized: QuantizedWeight) -> AutoAwq:
    """Return the tensors of a matrix of `uint4` whose N is a multiple of 8."""
    zeros = quantized.zero_points
    assert zeros is not None
    return AutoAwq(_packed(quantized.codes), _packed(zeros), np.ascontiguousarray(quantized.scales.T))


def _packed(codes: Uint8Array) -> Int32Array:
    """Return codes [N, X] as words [X, N/8]."""
    eights = codes.T.reshape(codes.shape[1], -1, 8)[:, :, ORDER]  # [X, N/8, 8]
    return words_from_codes(eights.reshape(codes.shape[1], -1), 4, axis=1)


def _unpacked(words: Int32Array) -> Uint8Array:
    """Return words [X, N/8] as codes [N, X]."""
    eights = codes_from_words(words, 4, axis=1, count=8 * words.shape[1]).reshape(len(words), -1, 8)
    back = np.argsort(ORDER)
    return np.ascontiguousarray(eights[:, :, back].reshape(len(words), -1).T)
