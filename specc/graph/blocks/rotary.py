"""Rotary position embedding: the tables, and their application to queries and keys."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from specc.checkpoint.facts import ModelFacts, RopeFacts
from specc.graph.builder import Builder
from specc.plan.plan import GraphPlan

Float32Array: TypeAlias = npt.NDArray[np.float32]
Float64Array: TypeAlias = npt.NDArray[np.float64]


def inverse_frequencies(rope: RopeFacts, head_dim: int) -> Float32Array:
    """Return the angle per position of each pair, float32 [D/2], with the scaling applied.

    Source: arXiv:2104.09864 section 3.4.2; `linear` and `llama3` scaling as in Hugging Face's rope utilities, where
    llama3 divides low frequencies by `factor`, keeps high ones and blends between by wavelength.
    """
    exponents = np.arange(0, head_dim, 2, dtype=np.float64) / head_dim
    frequencies = (1.0 / rope.theta**exponents).astype(np.float32).astype(np.float64)
    if rope.scaling == "linear":
        frequencies = frequencies / rope.factor
    if rope.scaling == "llama3":
        frequencies = _llama3(frequencies, rope)
    return frequencies.astype(np.float32)


def _llama3(frequencies: Float64Array, rope: RopeFacts) -> Float64Array:
    wavelengths = 2 * np.pi / frequencies
    turns = rope.original_max_position_embeddings / wavelengths
    smooth = (turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor)
    smooth = np.clip(smooth, 0.0, 1.0)
    return np.asarray((1 - smooth) * frequencies / rope.factor + smooth * frequencies)


def rotary_tables(rope: RopeFacts, head_dim: int, length: int) -> tuple[Float32Array, Float32Array]:
    """Return the cos and sin tables.

    Args:
        rope: base and scaling.
        head_dim: D, even.
        length: P, positions from 0.

    Returns:
        cos, sin: float32 [P, D/2]. The angle is rounded to float32 as in the reference implementation, which matters
        from a few thousand positions on.
    """
    positions = np.arange(length, dtype=np.float32)[:, None]
    angles = (positions * inverse_frequencies(rope, head_dim)[None, :]).astype(np.float64)  # [P, D/2]
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


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
        cos, sin = rotary_tables(facts.rope, facts.head_dim, length)
        self._builder = builder
        self._cos = builder.table("rotary.cos", cos, graph.compute_dtype)
        self._sin = builder.table("rotary.sin", sin, graph.compute_dtype)
        self._positions = builder.op("Min", positions, builder.i64_scalar(length - 1), name="rotary.positions")

    def apply(self, x: ir.Value, name: str) -> ir.Value:
        """Rotate x [B, heads, S, D]; pairs are (i, i + D/2), Hugging Face's layout."""
        return self._builder.op("RotaryEmbedding", x, self._cos, self._sin, self._positions, name=name)
