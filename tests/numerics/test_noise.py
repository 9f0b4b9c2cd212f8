"""The noise: fixed bits, arithmetic that every engine can do, and statistics (p < 1e-6 at fixed seeds, six sigma)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from specc.speculation.noise import HALF, ROUNDS, WORD, Stream, gumbel, noise_bits, row_key, uniform

FALSE_ALARM = 1e-6
SIX_SIGMA = 6.0
SAMPLES = 1 << 16
LARGEST = WORD - 1

GOLDEN = {
    (0, Stream.TARGET, 0, 0): 3539609,
    (0, Stream.TARGET, 1, 0): 3100623,
    (1, Stream.TARGET, 0, 0): 1384062,
    (1, Stream.DRAFT, 0, 0): 5955166,
    (1, Stream.ACCEPT, 7, 49151): 5855075,
    (1, Stream.RESIDUAL, 7, 49151): 186996,
    (1234567890, Stream.TARGET, 511, 2): 3193821,
    (LARGEST, Stream.TARGET, LARGEST, LARGEST): 2292661,
}


def permuted(left: int, right: int, rounds: list[tuple[int, int, int]], seen: list[int]) -> tuple[int, int]:
    """The Feistel network in Python's unbounded integers, with the bit operations the engines lack."""
    for a, b, c in rounds:
        product = (right * right + a * right + b) * c
        seen.append(product)
        left, right = right, (left + ((product & 0xFFFFFFFF) >> 16)) & 0xFFFF
    return left, right


def bits_in_python(seed: int, stream: int, position: int, token: int) -> tuple[int, list[int]]:
    seen: list[int] = []
    first = stream % 4
    left, right = permuted(seed >> 16, seed & 0xFFFF, [ROUNDS[(first + r) % 4] for r in range(4)], seen)
    key = permuted((left + (position >> 16)) & 0xFFFF, (right + position) & 0xFFFF, list(ROUNDS), seen)
    keyed = [((a + key[r % 2]) & 0xFFFF, (b + key[1 - r % 2]) & 0xFFFF, c) for r, (a, b, c) in enumerate(ROUNDS)]
    left, right = permuted(token >> 16, token & 0xFFFF, keyed, seen)
    return ((left << 16) | right) >> 9, seen


def bits(seed, stream, position, token):
    return noise_bits(
        np.asarray(seed, dtype=np.int64),
        stream,
        np.asarray(position, dtype=np.int64),
        np.asarray(token, dtype=np.int64),
    )


def uniformity_p(values, cells):
    counts = np.bincount(values, minlength=cells)
    return stats.chi2.sf(((counts - len(values) / cells) ** 2 / (len(values) / cells)).sum(), cells - 1)


def assert_independent(first, second):
    """16 x 16 cells of the high bits, the same of the low bits, and the correlation."""
    assert uniformity_p((first >> 19) * 16 + (second >> 19), 256) > FALSE_ALARM
    assert uniformity_p((first & 15) * 16 + (second & 15), 256) > FALSE_ALARM
    assert abs(np.corrcoef(first, second)[0, 1]) * np.sqrt(len(first)) < SIX_SIGMA


@pytest.mark.parametrize("key", GOLDEN, ids=str)
def test_golden_bits(key):
    seed, stream, position, token = key
    assert bits(seed, stream, position, token) == GOLDEN[key]


@given(st.integers(0, LARGEST), st.sampled_from(list(Stream)), st.integers(0, LARGEST), st.integers(0, LARGEST))
def test_the_bits_are_those_of_unbounded_integers(seed, stream, position, token):
    expected, seen = bits_in_python(seed, stream, position, token)
    assert bits(seed, stream, position, token) == expected
    assert max(seen) < 2**50


def test_no_intermediate_can_reach_2_to_the_50():
    top = HALF - 1
    largest = max((top * top + top * top + top) * c for _, _, c in ROUNDS)  # both keyed constants at their largest
    assert largest < 2**50


def test_float64_arithmetic_gives_the_same_bits():
    rng = np.random.default_rng(0)
    seed, position, token = (rng.integers(0, WORD, 4096) for _ in range(3))

    def network(left, right, rounds):
        for a, b, c in rounds:
            mixed = np.floor((right * right + a * right + b) * c / HALF) % HALF
            left, right = right, (left + mixed) % HALF
        return left, right

    def halves(word):
        return np.floor(word.astype(np.float64) / HALF), word.astype(np.float64) % HALF

    left, right = network(*halves(seed), ROUNDS[1:] + ROUNDS[:1])
    high, low = halves(position)
    key = network((left + high) % HALF, (right + low) % HALF, ROUNDS)
    keyed = [((a + key[r % 2]) % HALF, (b + key[1 - r % 2]) % HALF, c) for r, (a, b, c) in enumerate(ROUNDS)]
    left, right = network(*halves(token), keyed)
    expected = left * 128 + np.floor(right / 512)
    np.testing.assert_array_equal(bits(seed, Stream.TARGET, position, token), expected)


@pytest.mark.parametrize("stream", Stream)
def test_distinct_positions_have_distinct_keys(stream):
    left, right = row_key(np.int64(42), stream, np.arange(200_000))
    assert len(np.unique(left * HALF + right)) == 200_000


@pytest.mark.parametrize("axis", ["seed", "position", "token"])
@pytest.mark.parametrize("shift", [0, 15])
def test_uniform_along(axis, shift):
    where = {"seed": 11, "position": 12, "token": 13} | {axis: np.arange(SAMPLES)}
    values = bits(where["seed"], Stream.TARGET, where["position"], where["token"]) >> shift & 0xFF
    assert uniformity_p(values, 256) > FALSE_ALARM


@pytest.mark.parametrize(("axis", "width"), [("seed", 32), ("position", 20), ("token", 18)])
def test_avalanche(axis, width):
    """Every input bit flips every output bit half of the time: 23 * width cells, 4096 samples each."""
    rng = np.random.default_rng(3)
    samples = 4096
    where = {"seed": rng.integers(0, WORD, samples), "position": rng.integers(0, 1 << 20, samples)}
    where["token"] = rng.integers(0, 1 << 18, samples)
    before = bits(where["seed"], Stream.TARGET, where["position"], where["token"])
    for bit in range(width):
        flipped = where | {axis: where[axis] ^ (1 << bit)}
        changed = before ^ bits(flipped["seed"], Stream.TARGET, flipped["position"], flipped["token"])
        share = (changed[:, None] >> np.arange(23) & 1).mean(axis=0)
        assert np.abs(share - 0.5).max() * 2 * np.sqrt(samples) < SIX_SIGMA, f"{axis} bit {bit}"


NEIGHBOURS = {
    "position": {"position": 1},
    "position_beyond_a_half": {"position": HALF},
    "token": {"token": 1},
    "seed": {"seed": 1},
    "seed_beyond_a_half": {"seed": HALF},
    "stream": {"stream": 1},
    "seed_against_stream": {"seed": -1, "stream": 1},
    "seed_against_position": {"seed": -1, "position": 1},
    "position_against_token": {"position": -1, "token": 1},
    "stream_against_position": {"position": -1, "stream": 1},
}


@pytest.mark.parametrize("name", NEIGHBOURS)
@pytest.mark.parametrize("along", ["seed", "position", "token"])
def test_neighbours_are_independent(name, along):
    base = {"seed": 1000, "position": 2000, "token": 3000} | {along: np.arange(1, SAMPLES + 1)}
    step = NEIGHBOURS[name]
    moved = {axis: value + step.get(axis, 0) for axis, value in base.items()}
    first = bits(base["seed"], Stream.TARGET, base["position"], base["token"])
    second = bits(moved["seed"], Stream(Stream.TARGET + step.get("stream", 0)), moved["position"], moved["token"])
    assert_independent(first, second)


@pytest.mark.parametrize(("one", "other"), [(a, b) for a in Stream for b in Stream if a < b])
def test_streams_are_independent(one, other):
    seeds = np.arange(SAMPLES)
    assert_independent(bits(seeds, one, 5, 6), bits(seeds, other, 5, 6))
    assert_independent(bits(seeds, one, 5, 6), bits(seeds + 1, other, 5, 6))
    keys = [row_key(seeds, stream, np.int64(5)) for stream in (one, other)]
    assert ((keys[0][0] == keys[1][0]) & (keys[0][1] == keys[1][1])).mean() < 1e-3


def test_the_largest_of_many_tokens_is_uniform():
    """What sampling relies on: with equal logits every token wins equally often."""
    winners = bits(np.arange(20_000)[:, None], Stream.TARGET, 9, np.arange(64)).argmax(axis=1)
    assert uniformity_p(winners, 64) > FALSE_ALARM


def test_the_extremes_are_finite_and_ordered():
    ends = np.array([0, 1, (1 << 22), (1 << 23) - 2, (1 << 23) - 1])
    u = uniform(ends)
    np.testing.assert_array_equal(u.astype(np.float64), (ends + 0.5) * 2.0**-23)  # exact: no rounding to 0 or 1
    noise = gumbel(ends)
    assert noise.dtype == np.float32
    assert np.isfinite(noise).all()
    assert (np.diff(noise) > 0).all()
    np.testing.assert_allclose(noise, -np.log(-np.log((ends + 0.5) * 2.0**-23)), rtol=1e-6, atol=1e-6)


def test_the_gumbel_law():
    draws = gumbel(bits(np.arange(SAMPLES), Stream.TARGET, 3, 4)).astype(np.float64)
    assert stats.kstest(draws, stats.gumbel_r.cdf).pvalue > FALSE_ALARM
