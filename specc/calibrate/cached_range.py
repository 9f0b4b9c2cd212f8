"""What texts wrote into the caches of a model: the range that int8 caches are to hold.

Keys lie there rotated: by its position, a key's channels i and i + D/2 of a head share their length otherwise. What one
of them showed over short texts the other may hold at a later position, so both have the range of that length.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from specc.calibrate.statistics_file import StatisticsFolder
from specc.checkpoint.facts import ModelFacts
from specc.checkpoint.folded import TensorFactors
from specc.errors import SpeccBug
from specc.graph.tapped import CACHES, cache_name
from specc.quantize.elements import Float32Array


def largest_cached(
    facts: ModelFacts, statistics: StatisticsFolder, factors: Mapping[str, TensorFactors]
) -> dict[str, Float32Array]:
    """Return what each channel of each cache is to hold, float32 [KV D], by the cache's canonical name.

    Args:
        facts: of the model.
        statistics: of calibration, rows of caches included.
        factors: what a quantizer multiplied the tensors by afterwards; those of v reach its cache. Nothing multiplies
            k, whose rotation mixes channels.
    """
    found = {}
    for layer in range(facts.num_hidden_layers):
        for projection, _ in CACHES:
            weight = f"model.layers.{layer}.self_attn.{projection}.weight"
            seen = statistics.of_weight(cache_name(weight))
            if seen is None:
                raise SpeccBug(f"calibration did not look at {cache_name(weight)}")
            rows = factors[weight].rows if weight in factors else None
            largest = seen.max_abs if rows is None else seen.max_abs * rows
            rotated = projection == "k_proj"
            found[cache_name(weight)] = over_rotations(largest, facts.head_dim) if rotated else largest
    return found


def over_rotations(largest: Float32Array, head_dim: int) -> Float32Array:
    """Return what channels of these magnitudes may reach under any rotation of pairs (i, i + D/2), float32 [KV D]."""
    pairs = largest.reshape(-1, 2, head_dim // 2)
    lengths = np.hypot(pairs[:, :1], pairs[:, 1:])
    return np.broadcast_to(lengths, pairs.shape).reshape(-1).astype(np.float32)
