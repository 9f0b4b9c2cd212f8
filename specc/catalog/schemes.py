"""Quantization schemes: what a recipe may ask for. Which back end runs which stands in `capabilities.py`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class SchemeRow:
    """One scheme.

    Attributes:
        name: key of the row, in compressed-tensors' words.
        title: what is stored and what is computed.
        weight_bits: bits of one weight in a quantized layer, scales not counted.
    """

    name: str
    title: str
    weight_bits: int


SCHEMES: Final[dict[str, SchemeRow]] = {
    "f32": SchemeRow("f32", "float32 weights and activations", 32),
    "f16": SchemeRow("f16", "float16 weights and activations", 16),
    "bf16": SchemeRow("bf16", "bfloat16 weights and activations", 16),
    "w8a16": SchemeRow("w8a16", "8-bit integer weights, 16-bit activations", 8),
    "w4a16": SchemeRow("w4a16", "4-bit integer weights in groups, 16-bit activations", 4),
    "w8a8": SchemeRow("w8a8", "8-bit integer weights and activations", 8),
    "fp8": SchemeRow("fp8", "8-bit float (e4m3) weights and activations", 8),
    "nvfp4": SchemeRow("nvfp4", "4-bit float (e2m1) weights in blocks of 16 under two levels of scales", 4),
}
