from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from specc.speculation.distribution import processed_distribution
from specc.speculation.noise import Stream, gumbel, noise_bits
from specc.speculation.sampling import greedy_pick, kept_candidates, near_sums, near_ties, sampling_rows, target_picks

SEEDS = np.array([3, 2**32 - 1, 0], dtype=np.int64)


def f32(values):
    return np.array(values, dtype=np.float32)


def kept_ids(logits, candidates=100, **setting):
    rows = sampling_rows(np.zeros(1, dtype=np.int64), **{"temperature": 1.0} | setting)
    return np.flatnonzero(kept_candidates(f32(logits)[None, None], rows, candidates)[0, 0]).tolist()


def test_greedy_takes_the_lowest_id_of_the_largest():
    assert greedy_pick(f32([[1, 5, 5, 2], [-np.inf, -3, -np.inf, -3]])).tolist() == [1, 1]


@pytest.mark.parametrize("temperature", [0.0, 1e-6, 9.9e-6, -1.0])
def test_below_the_bound_a_row_is_greedy_whatever_the_seed(temperature):
    logits = np.random.default_rng(0).normal(0, 1, (3, 2, 50)).astype(np.float32)
    picks = target_picks(logits, sampling_rows(SEEDS, temperature, 5, 0.5, 0.1), np.zeros((3, 2), dtype=np.int64), 10)
    np.testing.assert_array_equal(picks.ids, logits.argmax(-1))
    assert np.isfinite(picks.gaps).all()


def test_a_pick_is_the_gumbel_maximum_computed_by_hand():
    logits, positions = f32([[[0.5, 0.0, -0.25]]]), np.array([[41]])
    picks = target_picks(logits, sampling_rows(np.array([9]), 0.5), positions, 3)
    noise = [float(gumbel(noise_bits(np.int64(9), Stream.TARGET, np.int64(41), np.int64(v)))) for v in range(3)]
    values = [0.0 + noise[0], -1.0 + noise[1], -1.5 + noise[2]]
    best, second = sorted(values, reverse=True)[:2]
    assert picks.ids.item() == values.index(best)
    assert picks.gaps.item() == pytest.approx(best - second, abs=1e-6)


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ({}, [0, 1, 2, 3, 4, 5]),
        ({"top_k": 2}, [1, 2]),
        ({"top_k": 3}, [0, 1, 2]),  # 0 and 4 tie: the lowest id stays
        ({"top_k": 99}, [0, 1, 2, 3, 4, 5]),
        ({"top_k": 99, "candidates": 4}, [0, 1, 2, 4]),
        ({"top_p": 0.99999, "candidates": 3}, [0, 1, 2]),
        ({"candidates": 3}, [0, 1, 2, 3, 4, 5]),  # no truncation: candidates do not matter
        ({"top_p": 1e-9}, [1]),
        ({"top_p": 0.0}, [1]),
        ({"min_p": 1.0}, [1]),
        ({"min_p": 1.5}, [1]),
        ({"min_p": 0.3}, [0, 1, 2, 4]),
    ],
    ids=str,
)
def test_kept_candidates(setting, expected):
    logits = np.log(f32([0.15, 0.4, 0.2, 0.05, 0.15, 0.05]))
    assert kept_ids(logits, **setting) == expected


def test_top_p_renormalises_after_top_k():
    logits = np.log(f32([0.4, 0.3, 0.2, 0.1]))
    assert kept_ids(logits, top_p=0.55) == [0, 1]
    assert kept_ids(logits, top_k=2, top_p=0.55) == [0]  # 0.4 / 0.7 reaches 0.55


def test_top_p_is_decided_after_the_temperature():
    logits = np.log(f32([0.5, 0.3, 0.2]))
    assert kept_ids(logits, top_p=0.6) == [0, 1]
    assert kept_ids(logits, top_p=0.6, temperature=0.5) == [0]


settings = st.fixed_dictionaries(
    {
        "temperature": st.sampled_from([0.3, 1.0, 1.7]),
        "top_k": st.integers(0, 14),
        "min_p": st.sampled_from([0.0, 0.0317, 0.317]),
        "candidates": st.integers(1, 14),
    }
)


@given(st.lists(st.integers(-8, 8), min_size=1, max_size=12), settings, st.floats(0.01, 1.2))
def test_what_is_kept_is_the_support_of_the_law(values, setting, top_p):
    logits = f32(values) / np.float32(2)

    def support(share):
        return np.flatnonzero(processed_distribution(logits, top_p=share, **setting)).tolist()

    assume(support(top_p) == support(top_p - 1e-5) == support(top_p + 1e-5))  # off the threshold float32 cannot resolve
    assert kept_ids(logits, top_p=top_p, **setting) == support(top_p)


def test_the_law_is_the_softmax_when_nothing_is_truncated():
    logits = f32([1.0, -2.0, 0.5])
    law = processed_distribution(logits, temperature=0.7, top_k=0, top_p=1.0, min_p=0.0, candidates=1)
    weights = np.exp(np.float64(logits) / 0.7)
    np.testing.assert_allclose(law, weights / weights.sum(), rtol=1e-12, atol=0)


def test_rows_of_a_batch_keep_their_own_settings():
    logits = np.random.default_rng(1).normal(0, 1, (3, 2, 40)).astype(np.float32)
    positions = np.array([[5, 6], [900, 901], [1, 2]])
    mixed = sampling_rows(SEEDS, 0.9)
    mixed.temperature[0], mixed.top_k[1] = 0, 1
    picks = target_picks(logits, mixed, positions, 40).ids
    np.testing.assert_array_equal(picks[:2], logits[:2].argmax(-1))
    alone = target_picks(logits[2:], sampling_rows(SEEDS[2:], 0.9), positions[2:], 40).ids
    np.testing.assert_array_equal(picks[2:], alone)


def test_gaps_of_ties_and_of_lone_candidates():
    rows = sampling_rows(np.array([0, 1]), 0.0)
    rows.temperature[1], rows.top_k[1] = 1.0, 1
    picks = target_picks(f32([[[2, 2, 1]], [[0, 4, 1]]]), rows, np.array([[1], [1]]), 3)
    assert picks.gaps.tolist() == [[0.0], [np.inf]]
    assert target_picks(f32([[[2]]]), sampling_rows(np.array([0])), np.array([[1]]), 3).gaps.tolist() == [[np.inf]]


def test_of_the_same_logits_only_sums_are_near():
    """Two ids tie at the edge of top_k: rounding of logits would exchange them, rounding of sums cannot."""
    tied, seeds = np.log(np.array([[[0.6, 0.2, 0.2]]], dtype=np.float32)), np.arange(200)
    logits, positions = np.repeat(tied, 200, axis=0), np.zeros((200, 1), dtype=np.int64)
    at_edge = sampling_rows(seeds, 1.0, 2, 1.0)
    assert near_ties(logits, at_edge, positions, 3, 1e-5).any()
    assert not near_sums(logits, at_edge, positions, 3, 1e-5).any()
    at_threshold = sampling_rows(seeds, 1.0, 0, 0.8)  # 0.6 + 0.2: is the other 0.2 in?
    assert near_sums(logits, at_threshold, positions, 3, 1e-5).any()


def test_near_ties_see_gaps_and_thresholds():
    logits = np.broadcast_to(np.log(f32([0.5, 0.3, 0.2])), (400, 1, 3))
    seeds, positions = np.arange(400), np.zeros((400, 1), dtype=np.int64)
    at_threshold = near_ties(logits, sampling_rows(seeds, 1.0, 0, 0.8), positions, 3, 1e-5)  # 0.5 + 0.3: is 0.2 in?
    assert 40 < at_threshold.sum() < 160
    assert near_ties(logits, sampling_rows(seeds, 1.0, 0, 0.7), positions, 3, 1e-5).sum() == 0
    assert near_ties(np.zeros((1, 1, 3), dtype=np.float32), sampling_rows(np.array([0])), positions[:1], 3, 1e-5).all()


@pytest.mark.parametrize(
    ("logits", "setting"),
    [
        ([3.0, 2.0, 1.99999, 0.0], {"top_k": 2}),
        ([3.0, 2.0, 1.99999, 0.0], {"candidates": 2, "min_p": 1e-9}),
        ([3.0, 2.0, 1.99999, 0.0], {"top_p": 0.7}),
        ([2.0, 1.00001, 0.99999, 0.0], {"min_p": float(np.exp(np.float32(-1)))}),
    ],
    ids=str,
)
def test_picks_that_another_order_at_the_edge_would_change_are_near_ties_and_the_others_are_not(logits, setting):
    """Ids 1 and 2 lie on both sides of an edge, nearer than rounding: they change places, and so may the pick."""
    candidates = setting.pop("candidates", 4)
    count = 400
    rows = sampling_rows(np.arange(count), 1.0, **setting)
    positions = np.zeros((count, 1), dtype=np.int64)
    before = np.broadcast_to(f32(logits), (count, 1, 4))
    after = before.copy()
    after[..., 1], after[..., 2] = before[..., 2], before[..., 1]
    changed = (
        target_picks(before, rows, positions, candidates).ids != target_picks(after, rows, positions, candidates).ids
    )
    near = near_ties(before, rows, positions, candidates, 1e-3)
    assert 20 < changed.sum() < 380
    assert near[changed].all()
    assert not near[target_picks(before, rows, positions, candidates).ids == 0].all()


def test_nothing_is_near_a_tie_without_a_margin():
    logits = np.broadcast_to(f32([1.0, 0.5, 0.5, 0.5]), (50, 1, 4))
    rows, positions = sampling_rows(np.arange(50), 1.0, 2), np.zeros((50, 1), dtype=np.int64)
    assert not near_ties(logits, rows, positions, 4, 0.0).any()
