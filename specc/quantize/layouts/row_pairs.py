"""int4 codes two rows a byte, as ModelOpt packs them for TensorRT-LLM: the even row in the low half.

Source: `pack_int4_in_uint8` of nvidia-modelopt 0.37, `torch/export/quant_utils.py`.
"""

from __future__ import annotations

import numpy as np

from specc.errors import SpeccBug
from specc.quantize.elements import CodeArray
from specc.quantize.layouts.nibbles import Uint8Array, signed_nibbles


def bytes_from_row_pairs(codes: CodeArray) -> Uint8Array:
    """Return codes -8 to 7 or 0 to 15, [N, K], as uint8 [N/2, K].

    Raises:
        SpeccBug: N is odd.
    """
    if len(codes) % 2:
        raise SpeccBug(f"{len(codes)} rows do not pair up")
    low = codes.view(np.uint8) & np.uint8(15)
    return low[::2] | (low[1::2] << np.uint8(4))


def row_pairs_from_bytes(packed: Uint8Array) -> CodeArray:
    """Return the codes -8 to 7 of bytes [N/2, K], int8 [N, K]."""
    codes = np.empty((2 * len(packed), packed.shape[1]), np.uint8)
    np.bitwise_and(packed, 15, out=codes[::2])
    np.right_shift(packed, 4, out=codes[1::2])
    return signed_nibbles(codes)
