"""NVFP4 as ModelOpt and compressed-tensors store it: e2m1 codes two a byte along K, block scales e4m3, one float32.

Source: ModelOpt, `NVFP4QTensor`: uint8 [N, K/2], the first of two in the low half; float8_e4m3 [N, K/16]; float32 of
the tensor, weight = code * block scale * tensor scale. compressed-tensors stores the tensor's as its reciprocal.
"""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np

from specc.catalog.weight_formats import NVFP4
from specc.errors import SpeccBug
from specc.quantize.elements import ELEMENTS, CodeArray
from specc.quantize.layouts.nibbles import Uint8Array, bytes_from_nibbles, nibbles_from_bytes
from specc.quantize.quantized import QuantizedWeight


@dataclass(frozen=True, eq=False)
class Nvfp4:
    """The tensors of one linear layer.

    Attributes:
        codes: uint8 [N, K/2].
        block_scales: float8_e4m3fn [N, K/16].
        tensor_scale: float32, what block scales are multiplied by.
    """

    codes: Uint8Array
    block_scales: CodeArray
    tensor_scale: np.float32


def quantized_from_nvfp4(packed: Nvfp4) -> QuantizedWeight:
    """Return the matrix [N, K] that the tensors hold."""
    codes = nibbles_from_bytes(packed.codes).view(ELEMENTS["fp4_e2m1"].dtype)
    return QuantizedWeight(
        NVFP4, codes, packed.block_scales.astype(np.float32), global_scale=np.float32(packed.tensor_scale)
    )


def nvfp4_from_quantized(quantized: QuantizedWeight) -> Nvfp4:
    """Return the tensors of a matrix in the format NVFP4."""
    if quantized.format != NVFP4 or quantized.global_scale is None:
        raise SpeccBug(f"{quantized.format.title} is not NVFP4")
    return Nvfp4(
        bytes_from_nibbles(quantized.codes),
        quantized.scales.astype(ml_dtypes.float8_e4m3fn),
        quantized.global_scale,
    )
