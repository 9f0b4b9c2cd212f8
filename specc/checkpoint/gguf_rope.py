"""Rotary scaling of GGUF files: metadata keys, and `rope_freqs.weight`, which holds Llama 3's scaling as numbers.

Source: llama.cpp divides each inverse frequency by its factor in rope_freqs; the conversion computes the factors from
the four numbers of `rope_scaling`, which it does not store.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from specc.checkpoint.facts import RopeFacts
from specc.checkpoint.gguf_names import ROPE_FACTORS
from specc.checkpoint.rope import DEFAULT_THETA, linear, unbuilt, unscaled
from specc.checkpoint.source import Float32Array
from specc.checkpoint.values import Values, shortened

LLAMA3_BANDS: Final = ((1.0, 4.0, 8192),)
"""(low_freq_factor, high_freq_factor, original_max_position_embeddings) of published models: Llama 3.1, 3.2, 3.3."""
FACTOR_RTOL: Final = 1e-5
"""The factors are float32 (2^-24) of values computed in float32; neighbouring published scalings differ by far more."""


def rope_from_metadata(values: Values, prefix: str, head_dim: int, factors: Float32Array | None) -> RopeFacts:
    """Return base and scaling of the rotary embedding.

    Args:
        values: the metadata.
        prefix: of the architecture's keys, as `llama.`.
        head_dim: D.
        factors: float32 [D/2], the tensor rope_freqs.weight; None where there is none.

    Raises:
        SpeccError: SPC210 a value has the wrong type, SPC212 a scaling that specc does not build.
    """
    rotated = values.integer(prefix + "rope.dimension_count", head_dim)
    if rotated != head_dim:
        raise unbuilt(
            values.place(prefix + "rope.dimension_count"),
            f"{rotated} of {head_dim} elements of each head are rotated",
            "specc rotates whole heads",
        )
    theta = shortest(values.number(prefix + "rope.freq_base", DEFAULT_THETA, least=0))
    key = prefix + "rope.scaling.type"
    factor_key = prefix + ("rope.scaling.factor" if prefix + "rope.scaling.factor" in values else "rope.scale_linear")
    factor = shortest(values.number(factor_key, 1.0, least=0))
    kind = values.text(key, "none" if factor == 1.0 else "linear")
    if kind not in ("none", "linear"):
        raise unbuilt(
            values.place(key),
            f"rotary scaling {shortened(kind)}; specc builds none, linear and Llama 3's",
            "other frequencies change every logit",
        )
    scaled = kind == "linear" and factor != 1.0
    if factors is None:
        return linear(theta, factor) if scaled else unscaled(theta)
    if scaled:
        raise unbuilt(values.place(key), f"linear scaling together with {ROPE_FACTORS}", "no known model has both")
    return _from_factors(values, theta, head_dim, factors)


def llama3_factors(rope: RopeFacts, head_dim: int) -> Float32Array:
    """Return what each inverse frequency is divided by under `llama3` scaling, float32 [D/2].

    Source: transformers modeling_rope_utils `_compute_llama3_parameters`.
    """
    inverse = rope.theta ** -(np.arange(0, head_dim, 2, dtype=np.float64) / head_dim)
    waves = rope.original_max_position_embeddings * inverse / (2 * math.pi)
    span = rope.high_freq_factor - rope.low_freq_factor
    smooth = np.clip((waves - rope.low_freq_factor) / span, 0.0, 1.0)
    return (1.0 / ((1.0 - smooth) / rope.factor + smooth)).astype(np.float32)


def shortest(number: float) -> float:
    """Return the shortest decimal that is the same float32: metadata is float32, configurations are decimal."""
    return float(str(np.float32(number)))


def _from_factors(values: Values, theta: float, head_dim: int, factors: Float32Array) -> RopeFacts:
    place = f"{values.path} {ROPE_FACTORS}"
    if factors.shape != (head_dim // 2,) or not np.all(np.isfinite(factors)) or np.any(factors <= 0):
        raise unbuilt(
            place,
            f"shape {list(factors.shape)}, expected {head_dim // 2} positive numbers",
            "each divides one frequency",
        )
    if np.all(factors == 1.0):
        return unscaled(theta)
    for low, high, original in LLAMA3_BANDS:
        rope = RopeFacts(theta, "llama3", shortest(float(factors.max())), low, high, original)
        if np.allclose(factors, llama3_factors(rope, head_dim), rtol=FACTOR_RTOL, atol=0.0):
            return rope
    raise unbuilt(
        place,
        f"frequency factors from {factors.min():g} to {factors.max():g} that are not Llama 3's scaling",
        "other frequencies change every logit",
    )
