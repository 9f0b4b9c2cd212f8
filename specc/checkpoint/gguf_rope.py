"""Rotary scaling of GGUF files: metadata keys, and tensors that hold the scaling of Llama 3 and of Phi-3 as numbers.

Source: llama.cpp divides each inverse frequency by its factor in rope_freqs; the conversion computes the factors from
the four numbers of Llama 3's `rope_scaling`, which it does not store. Phi-3's two lists are stored as they are.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Final

import numpy as np

from specc.catalog.families import FamilyRow
from specc.checkpoint.facts import RopeFacts, YarnFacts
from specc.checkpoint.gguf_names import LONG_FACTORS, ROPE_FACTORS, SHORT_FACTORS
from specc.checkpoint.rope import (
    LEAST_RATIO,
    MOST_RATIO,
    linear,
    longrope,
    ratio_from_values,
    theta_from_values,
    unbuilt,
    unscaled,
    yarn,
)
from specc.checkpoint.source import Float32Array
from specc.checkpoint.values import Values, shortened

LLAMA3_BANDS: Final = ((1.0, 4.0, 8192),)
"""(low_freq_factor, high_freq_factor, original_max_position_embeddings) of published models: Llama 3.1, 3.2, 3.3."""
FACTOR_RTOL: Final = 1e-5
"""The factors are float32 (2^-24) of values computed in float32; neighbouring published scalings differ by far more."""


def rope_from_metadata(
    values: Values, prefix: str, family: FamilyRow, head_dim: int, factors: Mapping[str, Float32Array]
) -> RopeFacts:
    """Return base and scaling of the rotary embedding; of layers without a window where the family has two.

    Args:
        values: the metadata.
        prefix: of the architecture's keys, as `llama.`.
        family: whether heads may be rotated in part.
        head_dim: D.
        factors: float32 [R/2] by name, the tensors of ROPE_TENSORS that the file has.

    Raises:
        SpeccError: SPC210 a value has the wrong type, SPC212 a scaling that specc does not build.
    """
    rotary_dim = _rotary_dim(values, prefix, family, head_dim)
    theta = shortest(theta_from_values(values, prefix + "rope.freq_base", family.default_theta))
    key = prefix + "rope.scaling.type"
    factor_key = prefix + ("rope.scaling.factor" if prefix + "rope.scaling.factor" in values else "rope.scale_linear")
    factor = shortest(ratio_from_values(values, factor_key, 1.0))
    kind = "longrope" if LONG_FACTORS in factors else values.text(key, "none" if factor == 1.0 else "linear")
    if kind == "longrope":
        facts = _longrope(values, prefix, theta, (rotary_dim or head_dim) // 2, factors)
    elif kind == "yarn":
        original = values.integer(prefix + "rope.scaling.original_context_length")
        facts = yarn(theta, factor, original, None, YarnFacts(beta_fast=32.0, beta_slow=1.0, truncate=True))
        stated = ratio_from_values(values, prefix + "rope.scaling.attn_factor", 1.0)
        facts = dataclasses.replace(facts, attention_factor=facts.attention_factor * shortest(stated))
    elif kind in ("none", "linear"):
        _refuse_attention_factor(values, prefix)
        facts = linear(theta, factor) if kind == "linear" and factor != 1.0 else unscaled(theta)
    else:
        raise unbuilt(
            values.place(key),
            f"rotary scaling {shortened(kind)}; specc builds none, linear, yarn, longrope and Llama 3's",
            "other frequencies change every logit",
        )
    if ROPE_FACTORS in factors:
        if facts.scaling != "none":
            raise unbuilt(
                values.place(key), f"{facts.scaling} scaling together with {ROPE_FACTORS}", "no known model has both"
            )
        facts = _from_factors(values, theta, head_dim, factors[ROPE_FACTORS])
    return dataclasses.replace(facts, rotary_dim=rotary_dim)


def _rotary_dim(values: Values, prefix: str, family: FamilyRow, head_dim: int) -> int:
    rotated = values.integer(prefix + "rope.dimension_count", head_dim)
    if rotated == head_dim:
        return 0
    if not family.partial_rotary or rotated > head_dim or rotated % 2:
        raise unbuilt(
            values.place(prefix + "rope.dimension_count"),
            f"{rotated} of {head_dim} elements of each head are rotated",
            "specc rotates whole heads, and of family phi3 an even part of them",
        )
    return rotated


def _longrope(values: Values, prefix: str, theta: float, pairs: int, factors: Mapping[str, Float32Array]) -> RopeFacts:
    original = values.integer(prefix + "rope.scaling.original_context_length")
    divisors = []
    for name in (SHORT_FACTORS, LONG_FACTORS):
        found = factors.get(name, np.zeros(0, dtype=np.float32))
        _check_factors(values, name, found, pairs)
        divisors.append(tuple(shortest(float(number)) for number in found))
    key = prefix + "rope.scaling.attn_factor"
    stated = shortest(ratio_from_values(values, key)) if key in values else None
    scale = values.integer(prefix + "context_length") / original
    return longrope(theta, scale, original, stated, short=divisors[0], long=divisors[1])


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
    _check_factors(values, ROPE_FACTORS, factors, head_dim // 2)
    if np.all(factors == 1.0):
        return unscaled(theta)
    for low, high, original in LLAMA3_BANDS:
        rope = RopeFacts(theta, "llama3", shortest(float(factors.max())), low, high, original)
        if np.allclose(factors, llama3_factors(rope, head_dim), rtol=FACTOR_RTOL, atol=0.0):
            return rope
    raise unbuilt(
        f"{values.path} {ROPE_FACTORS}",
        f"frequency factors from {factors.min():g} to {factors.max():g} that are not Llama 3's scaling",
        "other frequencies change every logit",
    )


def _refuse_attention_factor(values: Values, prefix: str) -> None:
    key = prefix + "rope.scaling.attn_factor"
    if ratio_from_values(values, key, 1.0) != 1.0:
        raise unbuilt(
            values.place(key),
            f"{shortened(values.mapping[key])} without yarn or longrope",
            "cos and sin would be multiplied by it",
        )


def _check_factors(values: Values, name: str, factors: Float32Array, pairs: int) -> None:
    if factors.shape != (pairs,) or not np.all((factors >= LEAST_RATIO) & (factors <= MOST_RATIO)):
        raise unbuilt(
            f"{values.path} {name}",
            f"shape {list(factors.shape)}, expected {pairs} numbers above 0",
            "each divides one frequency",
        )
