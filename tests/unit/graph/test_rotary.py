from __future__ import annotations

import math

import numpy as np
import pytest

from specc.checkpoint.facts import RopeFacts
from specc.graph.blocks.rotary import inverse_frequencies, rotary_tables

LLAMA3 = RopeFacts(500000.0, "llama3", 8.0, 1.0, 4.0, 8192)


def test_frequencies_without_scaling_are_the_ladder() -> None:
    got = inverse_frequencies(RopeFacts(10000.0, "none", 1.0, 1.0, 1.0, 0), 8)
    np.testing.assert_allclose(got, [1.0, 0.1, 0.01, 0.001], rtol=1e-7, atol=0)


def test_linear_scaling_divides_every_frequency() -> None:
    plain = inverse_frequencies(RopeFacts(10000.0, "none", 1.0, 1.0, 1.0, 0), 64)
    scaled = inverse_frequencies(RopeFacts(10000.0, "linear", 4.0, 1.0, 1.0, 0), 64)
    np.testing.assert_array_equal(scaled, plain / np.float32(4))


def test_llama3_keeps_short_waves_divides_long_ones_and_blends_between() -> None:
    plain = inverse_frequencies(RopeFacts(500000.0, "none", 1.0, 1.0, 1.0, 0), 128)
    scaled = inverse_frequencies(LLAMA3, 128)
    for before, after in zip(plain.tolist(), scaled.tolist(), strict=True):
        wavelength = 2 * math.pi / before
        if wavelength < 8192 / 4.0:
            assert after == pytest.approx(before, rel=1e-7)
        elif wavelength > 8192 / 1.0:
            assert after == pytest.approx(before / 8.0, rel=1e-7)
        else:
            assert before / 8.0 < after < before


def test_tables_have_a_row_for_every_position() -> None:
    cos, sin = rotary_tables(LLAMA3, 128, 300)
    assert cos.shape == sin.shape == (300, 64)
    np.testing.assert_array_equal(cos[0], np.ones(64))
    np.testing.assert_allclose(cos**2 + sin**2, np.ones((300, 64)), rtol=1e-6, atol=0)
    assert cos[17, 0] == pytest.approx(math.cos(17.0), rel=1e-6)
