"""The noise of `specc.speculation.noise`, bit for bit, in 32-bit arithmetic.

Of a round's product only bits 16 to 31 are used, so arithmetic modulo 2^32 gives the same halves.
"""

from __future__ import annotations

import triton
import triton.language as tl

from specc.speculation.noise import ROUNDS

A0, B0, C0 = map(tl.constexpr, ROUNDS[0])
A1, B1, C1 = map(tl.constexpr, ROUNDS[1])
A2, B2, C2 = map(tl.constexpr, ROUNDS[2])
A3, B3, C3 = map(tl.constexpr, ROUNDS[3])


@triton.jit
def _permuted(left, right, a0, b0, a1, b1, a2, b2, a3, b3, FIRST: tl.constexpr):
    """Return the halves after four rounds that begin at round FIRST."""
    for step in tl.static_range(4):
        if (FIRST + step) % 4 == 0:
            product = (right * (right + a0) + b0) * C0
        elif (FIRST + step) % 4 == 1:
            product = (right * (right + a1) + b1) * C1
        elif (FIRST + step) % 4 == 2:
            product = (right * (right + a2) + b2) * C2
        else:
            product = (right * (right + a3) + b3) * C3
        left, right = right, (left + (product >> 16)) & 0xFFFF
    return left, right


@triton.jit
def noise_bits(seed, position, tokens, STREAM: tl.constexpr):
    """Return 23 uniform bits for each token, uint32; seed and position are int64 scalars, tokens int32."""
    seed = seed.to(tl.uint32)
    position = position.to(tl.uint32)
    left, right = _permuted(seed >> 16, seed & 0xFFFF, A0, B0, A1, B1, A2, B2, A3, B3, FIRST=STREAM % 4)
    left = (left + (position >> 16)) & 0xFFFF
    right = (right + (position & 0xFFFF)) & 0xFFFF
    left, right = _permuted(left, right, A0, B0, A1, B1, A2, B2, A3, B3, FIRST=0)
    tokens = tokens.to(tl.uint32)
    high, low = _permuted(
        tokens >> 16,
        tokens & 0xFFFF,
        (left + A0) & 0xFFFF,
        (right + B0) & 0xFFFF,
        (right + A1) & 0xFFFF,
        (left + B1) & 0xFFFF,
        (left + A2) & 0xFFFF,
        (right + B2) & 0xFFFF,
        (right + A3) & 0xFFFF,
        (left + B3) & 0xFFFF,
        FIRST=0,
    )
    return (high << 7) + (low >> 9)


@triton.jit
def uniform(bits):
    """Return (bits + 0.5) * 2^-23, float32 in (0, 1)."""
    return (bits.to(tl.float32) + 0.5) * (1.0 / 8388608.0)


@triton.jit
def exponential(bits):
    """Return -log(u), float32 above 0."""
    return -tl.log(uniform(bits))


@triton.jit
def gumbel(bits):
    """Return -log(-log(u)), float32 and finite."""
    return -tl.log(exponential(bits))
