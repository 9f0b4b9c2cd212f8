"""Codes of 4 or 8 bits in 32-bit words, the first in the lowest bits: what checkpoints of several tools are made of."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from specc.errors import SpeccBug
from specc.quantize.layouts.nibbles import Uint8Array, bytes_from_nibbles, nibbles_from_bytes

Int32Array: TypeAlias = npt.NDArray[np.int32]


def words_from_codes(codes: Uint8Array, bits: int, axis: int) -> Int32Array:
    """Return unsigned codes packed along an axis; what lacks to a whole word is filled with 0.

    Args:
        codes: uint8 [R, C], each below 2**bits.
        bits: 4 or 8.
        axis: 0 or 1, along which neighbours share a word.

    Returns:
        int32 [ceil(R * bits / 32), C] or [R, ceil(C * bits / 32)].
    """
    if axis == 0:
        return np.ascontiguousarray(words_from_codes(codes.T, bits, 1).T)
    per_word = _per_word(bits)
    padded = np.pad(codes, ((0, 0), (0, -codes.shape[1] % per_word)))
    packed = bytes_from_nibbles(padded) if bits == 4 else padded
    return np.ascontiguousarray(packed).view("<i4").astype(np.int32, copy=False)


def codes_from_words(words: Int32Array, bits: int, axis: int, count: int) -> Uint8Array:
    """Return the first `count` codes along an axis of packed words, uint8.

    Args:
        words: int32 [R, C].
        bits: 4 or 8.
        axis: 0 or 1, along which neighbours share a word.
        count: codes wanted along it.

    Raises:
        SpeccBug: the words hold fewer.
    """
    if axis == 0:
        return np.ascontiguousarray(codes_from_words(words.T, bits, 1, count).T)
    if words.shape[1] * _per_word(bits) < count:
        raise SpeccBug(f"{words.shape[1]} words of {bits}-bit codes do not hold {count}")
    packed = np.ascontiguousarray(words).astype("<i4", copy=False).view(np.uint8)
    return (nibbles_from_bytes(packed) if bits == 4 else packed)[:, :count]


def _per_word(bits: int) -> int:
    if bits not in (4, 8):
        raise SpeccBug(f"codes of {bits} bits")
    return 32 // bits
