"""GGUF blocks that are a format of ours, read without rounding anything again.

Blocks with a float minimum (`q4_1`, `q5_1`, `q2_k`, `q4_k`, `q5_k`) have no integer that stands for 0.0, and those of
`q3_k`, of points of a grid (`iq1` to `iq3`), of three values (`tq1_0`, `tq2_0`) and of `mxfp4` have no format here:
their numbers are expanded and quantized anew, with an error that is said.

Source: llama.cpp, `ggml-common.h` and `dequantize_row_*` of `ggml-quants.c`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from specc.catalog.weight_formats import WeightFormat
from specc.checkpoint.plain_tensor import Uint8Array, bytes_from_header, not_finite
from specc.checkpoint.source import TensorHeader
from specc.errors import SpeccBug
from specc.quantize.elements import CodeArray, Float32Array
from specc.quantize.quantized import QuantizedWeight

BLOCK_FORMATS: Final[dict[str, WeightFormat]] = {
    "q4_0": WeightFormat("int4", "group", 32, zero_point=False, scale_dtype="f16"),
    "q5_0": WeightFormat("int8", "group", 32, zero_point=False, scale_dtype="f16"),
    "q8_0": WeightFormat("int8", "group", 32, zero_point=False, scale_dtype="f16"),
    "q6_k": WeightFormat("int8", "group", 16, zero_point=False, scale_dtype="f32"),
    "iq4_nl": WeightFormat("int8", "group", 32, zero_point=False, scale_dtype="f16"),
    "iq4_xs": WeightFormat("int8", "group", 32, zero_point=False, scale_dtype="f32"),
}
"""Encodings that are exactly a format. Scales may be negative. The scale of 16 weights of `q6_k` is a product, as
that of 32 of `iq4_xs`."""

BLOCK_BYTES: Final = {"q4_0": 18, "q5_0": 22, "q8_0": 34, "q6_k": 210, "iq4_nl": 18, "iq4_xs": 136}
LEVELS: Final = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.int8)
"""What the 16 codes of `iq4_nl` and `iq4_xs` stand for."""


def formats_from_headers(headers: Mapping[str, TensorHeader]) -> dict[str, WeightFormat]:
    """Return the formats of the matrices whose blocks are one, by name."""
    return {
        name: BLOCK_FORMATS[header.encoding]
        for name, header in headers.items()
        if header.encoding in BLOCK_FORMATS and len(header.shape) == 2
    }


def quantized_from_gguf(header: TensorHeader) -> QuantizedWeight:
    """Return a matrix of blocks, rows in the file's order.

    Raises:
        SpeccError: SPC206 the file changed, SPC223 a scale is not finite.
        SpeccBug: an encoding that is no format.
    """
    blocks = bytes_from_header(header).reshape(-1, BLOCK_BYTES[header.encoding])  # [N * K / block, bytes of a block]
    match header.encoding:
        case "q4_0":
            codes, scales = _halves(blocks[:, 2:]).view(np.int8) - np.int8(8), _float16(blocks[:, :2])
        case "q5_0":
            high = np.unpackbits(blocks[:, 2:6], axis=1, bitorder="little")  # the fifth bits [blocks, 32]
            codes = (_halves(blocks[:, 6:]) | (high << np.uint8(4))).view(np.int8) - np.int8(16)
            scales = _float16(blocks[:, :2])
        case "q8_0":
            codes, scales = np.ascontiguousarray(blocks[:, 2:]).view(np.int8), _float16(blocks[:, :2])
        case "q6_k":
            codes, scales = _q6_k(blocks)
        case "iq4_nl":
            codes, scales = LEVELS[_halves(blocks[:, 2:])], _float16(blocks[:, :2])
        case "iq4_xs":
            codes, scales = _iq4_xs(blocks)
        case other:
            raise SpeccBug(f"{other} is no format")
    if not np.isfinite(scales).all():
        raise not_finite(header)
    form = BLOCK_FORMATS[header.encoding]
    shape = header.shape[0], header.shape[1]
    return QuantizedWeight(form, codes.reshape(shape), scales.reshape(form.scales_shape(shape)))


def _halves(packed: Uint8Array) -> Uint8Array:
    """Return codes of bytes [blocks, 16]: first the low halves of all, then the high ones, [blocks, 32]."""
    return np.concatenate([packed & np.uint8(15), packed >> np.uint8(4)], axis=1)


def _float16(stored: Uint8Array) -> Float32Array:
    return np.ascontiguousarray(stored).view("<f2").astype(np.float32)


def _q6_k(blocks: Uint8Array) -> tuple[CodeArray, Float32Array]:
    """Return codes [blocks, 256] and scales [blocks, 16]; a block is 128 low bytes, 64 high ones, 16 scales and one."""
    low = blocks[:, :128].reshape(-1, 2, 1, 64)
    high = blocks[:, 128:192].reshape(-1, 2, 1, 32)
    nibbles = low >> np.array([0, 4], np.uint8).reshape(1, 1, 2, 1) & np.uint8(15)  # [blocks, 2, 2, 64]
    pairs = high >> np.array([0, 2, 4, 6], np.uint8).reshape(1, 1, 4, 1) & np.uint8(3)  # [blocks, 2, 4, 32]
    codes = nibbles.reshape(-1, 2, 4, 32) | (pairs << np.uint8(4))
    scales = np.ascontiguousarray(blocks[:, 192:208]).view(np.int8).astype(np.float32) * _float16(blocks[:, 208:])
    return codes.reshape(-1, 256).view(np.int8) - np.int8(32), scales


def _iq4_xs(blocks: Uint8Array) -> tuple[CodeArray, Float32Array]:
    """Return codes [blocks, 256] and scales [blocks, 8]; a block is a scale, 2 high and 4 low bits of 8, 128 bytes."""
    high = np.ascontiguousarray(blocks[:, 2:4]).view("<u2") >> np.arange(0, 16, 2, dtype=np.uint16) & np.uint16(3)
    low = blocks[:, 4:8, np.newaxis] >> np.array([0, 4], np.uint8) & np.uint8(15)  # [blocks, 4, 2]
    factors = (low.reshape(-1, 8) | (high.astype(np.uint8) << np.uint8(4))).view(np.int8) - np.int8(32)
    codes = LEVELS[_halves(blocks[:, 8:].reshape(-1, 16))]
    return codes.reshape(-1, 256), factors.astype(np.float32) * _float16(blocks[:, :2])
