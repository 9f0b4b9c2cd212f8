"""What texts wrote into the caches of a model: the range that int8 caches are to hold."""

from __future__ import annotations

from collections.abc import Mapping

from specc.calibrate.statistics_file import StatisticsFolder
from specc.checkpoint.facts import ModelFacts
from specc.checkpoint.folded import TensorFactors
from specc.errors import SpeccBug
from specc.graph.tapped import CACHES, cache_name
from specc.quantize.elements import Float32Array


def largest_cached(
    facts: ModelFacts, statistics: StatisticsFolder, factors: Mapping[str, TensorFactors]
) -> dict[str, Float32Array]:
    """Return the largest magnitude of each channel of each cache, float32 [KV D], by the cache's canonical name.

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
            found[cache_name(weight)] = seen.max_abs if rows is None else seen.max_abs * rows
    return found
