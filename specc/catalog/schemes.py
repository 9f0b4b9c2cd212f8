"""Quantization schemes: what a recipe may ask for. Which back end runs which stands in `capabilities.py`.

Names are those of compressed-tensors; `a16` at the end means that activations stay floats, of 16 bits on GPUs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from specc.catalog.weight_formats import NVFP4, WeightFormat

WeightClass: TypeAlias = Literal["embedding", "attention", "mlp", "experts", "small", "head"]
"""What a tensor is for; `small`: norms, biases and routers."""
ActivationElement: TypeAlias = Literal["int8", "fp8_e4m3", "fp4_e2m1"]


@dataclass(frozen=True)
class SchemeRow:
    """One scheme.

    Attributes:
        name: key of the row, in compressed-tensors' words.
        title: what is stored and what is computed.
        weight_bits: bits of one weight in a quantized layer, scales not counted.
        usual: how a matrix is usually stored; a back end's own rows may differ. None: floats.
        activations: what activations are rounded to before a product; None: they stay floats.
    """

    name: str
    title: str
    weight_bits: int
    usual: WeightFormat | None = None
    activations: ActivationElement | None = None


PLAIN: Final = ("f32", "f16", "bf16")
"""Schemes that store floats: all tensors alike. The others keep norms, biases and routers in floats."""

_W4: Final = WeightFormat("int4", "group", 128, zero_point=False, scale_dtype="f16")
_W8: Final = WeightFormat("int8", "channel", None, zero_point=False, scale_dtype="f16")
_FP8: Final = WeightFormat("fp8_e4m3", "channel", None, zero_point=False, scale_dtype="f16")

SCHEMES: Final[dict[str, SchemeRow]] = {
    "f32": SchemeRow("f32", "float32 weights and activations", 32),
    "f16": SchemeRow("f16", "float16 weights and activations", 16),
    "bf16": SchemeRow("bf16", "bfloat16 weights and activations", 16),
    "w8a16": SchemeRow("w8a16", "8-bit integer weights, float activations", 8, _W8),
    "w4a16": SchemeRow("w4a16", "4-bit integer weights in groups, float activations", 4, _W4),
    "w8a8": SchemeRow("w8a8", "8-bit integer weights and activations", 8, _W8, "int8"),
    "fp8": SchemeRow("fp8", "8-bit float (e4m3) weights and activations", 8, _FP8, "fp8_e4m3"),
    "fp8a16": SchemeRow("fp8a16", "8-bit float (e4m3) weights, float activations", 8, _FP8),
    "nvfp4": SchemeRow(
        "nvfp4",
        "4-bit float (e2m1) weights and activations in blocks of 16 under two levels of scales",
        4,
        NVFP4,
        "fp4_e2m1",
    ),
    "nvfp4a16": SchemeRow(
        "nvfp4a16", "4-bit float (e2m1) weights in blocks of 16 under two levels of scales, float activations", 4, NVFP4
    ),
}

CACHES: Final[dict[str, str]] = {
    "fp8": "8-bit float (e4m3) keys and values",
    "int8": "8-bit integer keys and values",
}
"""What keys and values may be stored as beside the dtype of activations (`kv_cache`): capabilities say where."""


def weight_bits(scheme: str) -> float:
    """Return the bits of one weight of a quantized layer, as usually stored, its share of the scales included."""
    row = SCHEMES[scheme]
    return float(row.weight_bits) if row.usual is None else row.usual.bits


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
