"""A kernel that stores the noise of tokens, for comparison with the oracle."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl

from specc.plugin.kernels.noise import gumbel, noise_bits
from specc.speculation.noise import Stream


@triton.jit
def _store_noise(seed, position, tokens, bits, values, STREAM: tl.constexpr, SIZE: tl.constexpr):  # noqa: PLR0917
    at = tl.arange(0, SIZE)
    found = noise_bits(tl.load(seed), tl.load(position), tl.load(tokens + at), STREAM)
    tl.store(bits + at, found.to(tl.int64))
    tl.store(values + at, gumbel(found))


def drawn(seed: int, position: int, tokens: np.ndarray[Any, Any], stream: Stream) -> tuple[Any, Any]:
    """Return 23 bits, int64, and Gumbel noise, float32, of tokens; their number is a power of 2."""
    bits, values = torch.zeros(len(tokens), dtype=torch.int64), torch.zeros(len(tokens))
    ids = torch.from_numpy(tokens.astype(np.int32))
    _store_noise[(1,)](torch.tensor([seed]), torch.tensor([position]), ids, bits, values, int(stream), len(tokens))
    return bits.numpy(), values.numpy()
