"""The range that int8 caches are to hold, from statistics and from what a quantizer multiplied afterwards."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specc.calibrate.cached_range import largest_cached, over_rotations
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


def test_it_is_the_length_of_pairs_of_k_and_the_magnitude_times_the_factor_of_the_rows_of_v(tmp_path: Path) -> None:
    statistics = statistics_of(tmp_path, ("k_cache", "v_cache"))
    factors = {V: TensorFactors(rows=np.array([0.5, 2.0, 1.0, 1.0], np.float32))}
    found = largest_cached(FACTS, statistics, factors)
    longest = [13**0.5, 13**0.5, 0.5, 0.5]
    np.testing.assert_allclose(found["model.layers.0.self_attn.k_cache"], longest, rtol=1e-6)
    np.testing.assert_array_equal(found["model.layers.0.self_attn.v_cache"], [2.0, 2.0, 1.0, 2.0])
    plain = largest_cached(FACTS, statistics, {})
    np.testing.assert_array_equal(plain["model.layers.0.self_attn.v_cache"], [4.0, 1.0, 1.0, 2.0])


def test_a_cache_that_was_not_looked_at_is_a_bug(tmp_path: Path) -> None:
    with pytest.raises(SpeccBug, match=r"did not look at model\.layers\.0\.self_attn\.v_cache"):
        largest_cached(FACTS, statistics_of(tmp_path, ("k_cache",)), {})


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), heads=st.integers(1, 3), half=st.integers(1, 8))
def test_no_later_position_of_a_key_leaves_the_range_that_the_first_ones_give(seed: int, heads: int, half: int) -> None:
    """ONNX's rotation of the same keys at other positions: a slow pair has hardly turned over a short text."""
    rng = np.random.default_rng(seed)
    keys = rng.standard_normal((4, heads, 2, half)) * rng.lognormal(0, 2, (1, heads, 2, half))

    def rotated(start: int) -> npt.NDArray[np.float64]:
        angles = (start + np.arange(4))[:, np.newaxis, np.newaxis] / 1000 ** (np.arange(half) / half)
        x, y = keys[:, :, 0], keys[:, :, 1]
        return np.stack([x * np.cos(angles) - y * np.sin(angles), x * np.sin(angles) + y * np.cos(angles)], axis=2)

    seen = np.abs(rotated(0)).max(axis=0).reshape(-1).astype(np.float32)
    held = over_rotations(seen, 2 * half)
    for start in (5, 100, 4000):
        assert (np.abs(rotated(start)).max(axis=0).reshape(-1) <= held * 1.00001).all()
