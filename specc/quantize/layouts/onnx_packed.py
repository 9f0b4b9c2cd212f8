"""ONNX tensors of 4-bit elements: int4, uint4 and float4e2m1.

Source: the ONNX IR, `onnx.proto` on packed 4-bit tensors: elements of the flattened tensor, the first in the low bits;
the last byte of an odd count is filled with 0.
"""

from __future__ import annotations

import numpy as np

from specc.catalog.weight_formats import WeightElement
from specc.quantize.elements import ELEMENTS, CodeArray
from specc.quantize.layouts.nibbles import Uint8Array, bytes_from_nibbles, nibbles_from_bytes, signed_nibbles


def onnx_packed_from_codes(codes: CodeArray) -> Uint8Array:
    """Return the bytes of a tensor of 4-bit elements of any shape.

    Args:
        codes: int8 (-8 to 7), uint8 (0 to 15) or float4_e2m1fn, row-major as ONNX shapes it; a matrix [N, K] that
            DequantizeLinear reads along axis 0 comes transposed.

    Returns:
        uint8 [ceil(n / 2)].
    """
    flat = np.ascontiguousarray(codes).reshape(-1)
    return bytes_from_nibbles(np.pad(flat.view(np.uint8), (0, flat.size % 2)))


def codes_from_onnx_packed(packed: Uint8Array, shape: tuple[int, ...], element: WeightElement) -> CodeArray:
    """Return the codes of a tensor of 4-bit elements, in the dtype of QuantizedWeight."""
    nibbles = nibbles_from_bytes(packed)[: int(np.prod(shape))].reshape(shape)
    return signed_nibbles(nibbles) if element == "int4" else nibbles.view(ELEMENTS[element].dtype)
