"""Rotary position embedding: the tables, and their application to queries and keys."""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from specc.checkpoint.facts import ModelFacts, RopeFacts, YarnFacts
from specc.graph.builder import Builder
from specc.plan.plan import GraphPlan

Float32Array: TypeAlias = npt.NDArray[np.float32]


def inverse_frequencies(rope: RopeFacts, head_dim: int) -> Float32Array:
    """Return the angle per position of each pair, float32 [R/2], with the scaling applied.

    Args:
        rope: base and scaling; R is its rotary_dim, or the head's size.
        head_dim: D, even.

    Source: arXiv:2104.09864 section 3.4.2; the scalings as in Hugging Face's rope utilities: `llama3` divides low
    frequencies by `factor`, keeps high ones and blends between by wavelength; `yarn` (arXiv:2309.00071) blends by the
    index of the pair; `longrope` (arXiv:2402.13753) divides each by a number of its own.
    """
    size = rope.rotary_dim or head_dim
    # The reference's own roundings: exponents, powers and reciprocals in float32. One unit in the last place of a
    # frequency turns far positions by a thousandth of a radian.
    exponents = np.arange(0, size, 2, dtype=np.float32) / np.float32(size)
    ladder = (rope.theta ** exponents.astype(np.float64)).astype(np.float32)
    one = np.float32(1.0)
    if rope.scaling == "linear":
        return np.asarray(one / ladder / np.float32(rope.factor))
    if rope.scaling == "llama3":
        return _llama3(one / ladder, rope)
    if rope.yarn is not None:
        divided = _divided_share(rope, rope.yarn, size)
        far, near = one / (np.float32(rope.factor) * ladder), one / ladder
        return np.asarray(far * divided + near * (one - divided))
    if rope.longrope is not None:
        divisors = rope.longrope.long_factor if rope.longrope.in_use == "long" else rope.longrope.short_factor
        return np.asarray(one / (np.array(divisors, dtype=np.float32) * ladder))
    return np.asarray(one / ladder)


def _llama3(frequencies: Float32Array, rope: RopeFacts) -> Float32Array:
    wavelengths = np.float32(2 * np.pi) / frequencies
    original, factor = np.float32(rope.original_max_position_embeddings), np.float32(rope.factor)
    low, high = np.float32(rope.low_freq_factor), np.float32(rope.high_freq_factor)
    smooth = (original / wavelengths - low) / (high - low)
    blended = (1 - smooth) * frequencies / factor + smooth * frequencies
    long, short = wavelengths > original / low, wavelengths < original / high
    return np.asarray(np.where(long, frequencies / factor, np.where(short, frequencies, blended)))


def _divided_share(rope: RopeFacts, yarn: YarnFacts, size: int) -> Float32Array:
    """Return for each pair how much of its frequency is the divided one: 0 for the first, 1 for the last pairs."""

    def pair_of_turns(turns: float) -> float:
        ratio = rope.original_max_position_embeddings / (turns * 2 * math.pi)
        return size * math.log(ratio) / (2 * math.log(rope.theta))

    low, high = pair_of_turns(yarn.beta_fast), pair_of_turns(yarn.beta_slow)
    if yarn.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, size - 1)
    span = np.float32(high - low if high != low else 0.001)
    return np.asarray(np.clip((np.arange(size // 2, dtype=np.float32) - np.float32(low)) / span, 0, 1))


def rotary_tables(rope: RopeFacts, head_dim: int, length: int) -> tuple[Float32Array, Float32Array]:
    """Return the cos and sin tables.

    Args:
        rope: base and scaling; R is its rotary_dim, or the head's size.
        head_dim: D, even.
        length: P, positions from 0.

    Returns:
        cos, sin: float32 [P, R/2], times the attention factor. The angle is rounded to float32 as in the reference
        implementation, which matters from a few thousand positions on.
    """
    positions = np.arange(length, dtype=np.float32)[:, None]
    angles = (positions * inverse_frequencies(rope, head_dim)[None, :]).astype(np.float64)  # [P, R/2]
    factor = rope.attention_factor
    return (np.cos(angles) * factor).astype(np.float32), (np.sin(angles) * factor).astype(np.float32)


class Rotary:
    """The tables and positions that every layer of one graph shares."""

    def __init__(self, builder: Builder, facts: ModelFacts, graph: GraphPlan, positions: ir.Value) -> None:
        """Declare the tables and clip the positions to them.

        Args:
            builder: where the nodes go.
            facts: head size and scaling.
            graph: the tables cover its last capacity bucket.
            positions: int64 [B, S], absolute.
        """
        length = graph.capacity_buckets[-1]
        self._facts = facts
        self._tables = {"main": self._declared(builder, facts.rope, "rotary", graph)}
        if facts.local_rope is not None:
            self._tables["local"] = self._declared(builder, facts.local_rope, "rotary.local", graph)
        self._positions = builder.op("Min", positions, builder.i64_scalar(length - 1), name="rotary.positions")

    def apply(
        self, builder: Builder, x: ir.Value, name: str, which: Literal["main", "local", "none"] = "main"
    ) -> ir.Value:
        """Rotate x [B, heads, S, D]; pairs are (i, i + R/2) of the first R elements, Hugging Face's layout."""
        if which == "none":
            return x
        cos, sin, rotary_dim = self._tables[which]
        if rotary_dim == 0:
            return builder.op("RotaryEmbedding", x, cos, sin, self._positions, name=name)
        return builder.op("RotaryEmbedding", x, cos, sin, self._positions, name=name, rotary_embedding_dim=rotary_dim)

    def _declared(
        self, builder: Builder, rope: RopeFacts, name: str, graph: GraphPlan
    ) -> tuple[ir.Value, ir.Value, int]:
        cos, sin = rotary_tables(rope, self._facts.head_dim, graph.capacity_buckets[-1])
        dtype = graph.compute_dtype
        tables = builder.table(f"{name}.cos", cos, dtype), builder.table(f"{name}.sin", sin, dtype)
        return *tables, rope.rotary_dim
