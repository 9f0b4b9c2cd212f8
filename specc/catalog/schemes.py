"""Quantization schemes: what a recipe may ask for. Which back end runs which stands in `capabilities.py`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

WeightClass: TypeAlias = Literal["embedding", "attention", "mlp", "experts", "small", "head"]
"""What a tensor is for; `small`: norms, biases and routers."""


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


PLAIN: Final = ("f32", "f16", "bf16")
"""Schemes that store floats: all tensors alike. The others keep embedding, norms and head in 16 bits."""

SCALE_BITS: Final[dict[str, float]] = {"w4a16": 16 / 128, "nvfp4": 8 / 16}
"""Bits that scales add to one weight: one of 16 bits for 128 weights, one of 8 for 16; others have one a channel."""

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


def weight_bits(scheme: str) -> float:
    """Return the bits of one weight of a quantized layer, its share of the scales included."""
    return SCHEMES[scheme].weight_bits + SCALE_BITS.get(scheme, 0.0)


def plain_bits(scheme: str) -> float:
    """Return the bits of one element of the tensors that a scheme does not quantize."""
    return float(SCHEMES[scheme].weight_bits) if scheme in PLAIN else 16.0


def bits_by_class(scheme: str) -> dict[WeightClass, float]:
    """Return the bits of one weight of each class, scales included: what a scheme quantizes, and what it leaves."""
    quantized, plain = weight_bits(scheme), plain_bits(scheme)
    return {
        "embedding": plain,
        "attention": quantized,
        "mlp": quantized,
        "experts": quantized,
        "small": plain,
        "head": plain,
    }
