"""Two codes of 4 bits in a byte, the first in the low half: ONNX, MatMulNBits and NVFP4 agree on that."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from specc.errors import SpeccBug
from specc.quantize.elements import CodeArray

Uint8Array: TypeAlias = npt.NDArray[np.uint8]


def bytes_from_nibbles(codes: CodeArray) -> Uint8Array:
    """Return codes packed along the last axis.

    Args:
        codes: integers of one byte [..., n], n even; of each the low 4 bits count, so -8 to 7 and 0 to 15 both serve.

    Returns:
        uint8 [..., n/2].

    Raises:
        SpeccBug: an odd count, or codes of more than one byte.
    """
    if codes.dtype.itemsize != 1 or codes.shape[-1] % 2:
        raise SpeccBug(f"{codes.dtype} {codes.shape} does not pack into nibbles")
    low_bits = codes.view(np.uint8) & np.uint8(15)
    return low_bits[..., ::2] | (low_bits[..., 1::2] << np.uint8(4))


def nibbles_from_bytes(packed: Uint8Array) -> Uint8Array:
    """Return the codes 0 to 15 of bytes [..., n/2], uint8 [..., n]."""
    codes = np.empty((*packed.shape[:-1], 2 * packed.shape[-1]), np.uint8)
    np.bitwise_and(packed, 15, out=codes[..., ::2])
    np.right_shift(packed, 4, out=codes[..., 1::2])
    return codes


def signed_nibbles(codes: Uint8Array) -> npt.NDArray[np.int8]:
    """Return codes 0 to 15, read as two's complement of 4 bits, as int8 -8 to 7."""
    return ((codes ^ np.uint8(8)).view(np.int8) - np.int8(8)).astype(np.int8, copy=False)
