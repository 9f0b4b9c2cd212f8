"""The range that int8 caches are to hold, from statistics and from what a quantizer multiplied afterwards."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from specc.calibrate.cached_range import largest_cached
from specc.calibrate.statistics_file import StatisticsFolder, write_statistics
from specc.checkpoint.folded import TensorFactors
from specc.errors import SpeccBug
from specc.lower.tapped import Tapped
from specc.quantize.statistics import StatisticsSum
from tests.tiny_engines import facts_from_sizes
from tests.tiny_models import TinyLlama

FACTS = facts_from_sizes(TinyLlama(num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2, head_dim=2))
V = "model.layers.0.self_attn.v_proj.weight"


def statistics_of(folder: Path, caches: tuple[str, ...]) -> StatisticsFolder:
    rows = {"k_cache": [[1.0, -3.0, 0.5, 0.0], [-2.0, 1.0, 0.25, 0.0]], "v_cache": [[4.0, 1.0, -1.0, 2.0]]}
    taps = {f"rows_{cache}": (f"model.layers.0.self_attn.{cache}",) for cache in caches}
    tapped = Tapped(folder, (), taps, dict.fromkeys(taps, 4), 8)
    found = []
    for tap in taps:
        total = StatisticsSum(4, hessian=False)
        total.add(np.array(rows[tap.removeprefix("rows_")], np.float32))
        found.append((tap, total.statistics()))
    write_statistics(folder, tapped, found, tokens=2)
    return StatisticsFolder(folder)


def test_it_is_the_largest_magnitude_times_the_factor_of_the_rows_of_v(tmp_path: Path) -> None:
    statistics = statistics_of(tmp_path, ("k_cache", "v_cache"))
    factors = {V: TensorFactors(rows=np.array([0.5, 2.0, 1.0, 1.0], np.float32))}
    found = largest_cached(FACTS, statistics, factors)
    np.testing.assert_array_equal(found["model.layers.0.self_attn.k_cache"], [2.0, 3.0, 0.5, 0.0])
    np.testing.assert_array_equal(found["model.layers.0.self_attn.v_cache"], [2.0, 2.0, 1.0, 2.0])
    plain = largest_cached(FACTS, statistics, {})
    np.testing.assert_array_equal(plain["model.layers.0.self_attn.v_cache"], [4.0, 1.0, 1.0, 2.0])


def test_a_cache_that_was_not_looked_at_is_a_bug(tmp_path: Path) -> None:
    with pytest.raises(SpeccBug, match=r"did not look at model\.layers\.0\.self_attn\.v_cache"):
        largest_cached(FACTS, statistics_of(tmp_path, ("k_cache",)), {})
