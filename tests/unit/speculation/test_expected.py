from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specc.speculation.expected import (
    GammaChoice,
    best_gamma,
    expected_tokens,
    geometric_expected_tokens,
    predicted_speedup,
)

# Best (gamma, speed-up) by draft cost c in AR steps and acceptance, verification as dear as one AR step.
BEST = {
    0.02: [(4, 1.79), (6, 2.17), (8, 2.76), (11, 3.82), (19, 6.37)],
    0.05: [(3, 1.63), (4, 1.92), (6, 2.35), (8, 3.09), (13, 4.67)],
    0.10: [(2, 1.46), (3, 1.67), (4, 1.98), (6, 2.47), (10, 3.43)],
    0.20: [(1, 1.25), (2, 1.40), (3, 1.58), (4, 1.87), (7, 2.37)],
}
ACCEPTANCES = [0.5, 0.6, 0.7, 0.8, 0.9]


@pytest.mark.parametrize("cost", BEST)
def test_the_published_table_of_best_gammas(cost):
    for acceptance, (gamma, speedup) in zip(ACCEPTANCES, BEST[cost], strict=True):
        choice = best_gamma([acceptance], lambda _: 1.0, 30, lambda drafts: cost * drafts)
        assert choice.gamma == gamma
        assert choice.speedup == pytest.approx(speedup, abs=0.006)


@given(st.floats(0, 1), st.integers(0, 20))
def test_equal_acceptances_are_the_geometric_case(acceptance, gamma):
    assert expected_tokens([acceptance] * gamma) == pytest.approx(
        geometric_expected_tokens(acceptance, gamma), rel=1e-9
    )


def test_a_rejection_discards_what_follows():
    assert expected_tokens([0.5, 0.0, 1.0]) == 1.5
    assert expected_tokens([1.0, 1.0, 1.0]) == 4.0
    assert expected_tokens([]) == 1.0


def test_unmeasured_positions_repeat_the_last_measured_one():
    measured = predicted_speedup([0.9, 0.5], 4, lambda _: 1.0)
    assert measured == pytest.approx(expected_tokens([0.9, 0.5, 0.5, 0.5]))


def test_the_cost_of_more_tokens_bounds_gamma():
    """Where verification is linear in its tokens from the first, even perfect acceptance only ties."""
    assert best_gamma([0.8], float, 8) == GammaChoice(0, 1.0)
    assert best_gamma([1.0], float, 8) == GammaChoice(0, 1.0)
    flat_to_four = best_gamma([0.8], lambda tokens: 1.0 if tokens <= 4 else 10.0, 8)
    assert flat_to_four == GammaChoice(3, pytest.approx(expected_tokens([0.8] * 3)))


def test_without_acceptance_ar_is_best():
    assert best_gamma([], lambda tokens: 1.0 + 0.01 * tokens, 8) == GammaChoice(0, 1.0)
    assert best_gamma([0.0], lambda tokens: 1.0 + 0.01 * tokens, 8) == GammaChoice(0, 1.0)
    assert best_gamma([0.9], lambda _: 1.0, 0) == GammaChoice(0, 1.0)
