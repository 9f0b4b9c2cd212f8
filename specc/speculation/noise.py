"""Counter-based noise: a Feistel network on 16-bit halves that NumPy, ONNX Runtime and TensorRT compute bit for bit.

    row key    = P(P_stream(seed) + position)                 32 bits; `+` acts on the two 16-bit halves, and
                                                              P_stream starts at another of P's four rounds
    word       = Q_key(token)                                 32 bits; Q's round constants come from the row key
    u          = (word >> 9 + 0.5) * 2^-23                    in (0, 1), exact in float32 at both ends
    gumbel     = -log(-log(u))

One round maps halves (left, right) to (right, left + ((right^2 + a right + b) c mod 2^32) >> 16 mod 2^16). No
intermediate reaches 2^50, so int64 and float64 arithmetic give the same bits; that matters because TensorRT has no
bitwise operators and float64 is several times faster than int64 division on CPUs.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

Int64Array: TypeAlias = npt.NDArray[np.int64]
Float32Array: TypeAlias = npt.NDArray[np.float32]
Halves: TypeAlias = tuple[Int64Array, Int64Array]
Round: TypeAlias = tuple[Int64Array | int, Int64Array | int, int]

HALF: Final = 1 << 16
WORD: Final = 1 << 32

# (a, b, c) of the four rounds: odd, from the fractional digits of sqrt(2), sqrt(3), sqrt(5) and sqrt(7) in base 2^16.
ROUNDS: Final[tuple[tuple[int, int, int], ...]] = (
    (0x6A09, 0xE667, 0xF3BD),
    (0xBB67, 0xAE85, 0x84CB),
    (0x3C6F, 0xF373, 0x1BCD),
    (0xA54F, 0xFF53, 0xA5F1),
)


class Stream(IntEnum):
    """Independent sources of noise: each permutes the seed from another round on.

    Coupled acceptance uses TARGET on both sides; rejection must not.
    """

    TARGET = 1
    DRAFT = 2
    ACCEPT = 3
    RESIDUAL = 4


def row_key(seed: Int64Array, stream: Stream, position: Int64Array) -> Halves:
    """Return the key of a row's noise.

    Args:
        seed: int64, any shape, in [0, 2^32).
        stream: which source.
        position: int64, broadcastable with seed, in [0, 2^32): absolute position of the token to be emitted.

    Returns:
        Two int64 arrays in [0, 2^16). Distinct positions under one seed and stream have distinct keys.
    """
    first = int(stream) % len(ROUNDS)
    left, right = _permute(seed // HALF % HALF, seed % HALF, ROUNDS[first:] + ROUNDS[:first])
    return _permute((left + position // HALF) % HALF, (right + position) % HALF, ROUNDS)


def noise_bits(seed: Int64Array, stream: Stream, position: Int64Array, token: Int64Array) -> Int64Array:
    """Return 23 uniform bits for each (seed, stream, position, token), broadcast together, as int64 in [0, 2^23)."""
    key_left, key_right = row_key(seed, stream, position)
    keyed: tuple[Round, ...] = tuple(
        ((a + (key_left if r % 2 == 0 else key_right)) % HALF, (b + (key_right if r % 2 == 0 else key_left)) % HALF, c)
        for r, (a, b, c) in enumerate(ROUNDS)
    )
    left, right = _permute(token // HALF, token % HALF, keyed)
    return left * (1 << 7) + right // (1 << 9)


def round_seed(seed: Int64Array, position: Int64Array) -> Int64Array:
    """Return the seed of a round's own noise, for modes whose rounds must not share it (`ModeRow.redraws`).

    Args:
        seed: int64 in [0, 2^32), of the request.
        position: int64, absolute position of the first token that the round may emit: past + logit_rows[0] + 1.

    Returns:
        int64 in [0, 2^32), broadcast; distinct for the positions of one seed.
    """
    left, right = row_key(seed, Stream.DRAFT, position)
    return np.asarray(left * HALF + right, dtype=np.int64)


def uniform(bits: Int64Array) -> Float32Array:
    """Return (bits + 0.5) * 2^-23 as float32, never 0 and never 1."""
    return ((bits.astype(np.float32) + np.float32(0.5)) * np.float32(2.0**-23)).astype(np.float32)


def gumbel(bits: Int64Array) -> Float32Array:
    """Return -log(-log(u)) as float32, finite: from -2.81 to 16.64."""
    return (-np.log(-np.log(uniform(bits)))).astype(np.float32)


def _permute(left: Int64Array, right: Int64Array, rounds: tuple[Round, ...]) -> Halves:
    for a, b, c in rounds:
        mixed = np.asarray(((right * right + a * right + b) * c) // HALF % HALF, dtype=np.int64)
        left, right = right, np.asarray((left + mixed) % HALF, dtype=np.int64)
    return left, right
