from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specc.bundle.certificate import StepCost
from specc.speculation.step_costs import isotonic, table_from_step_costs

costs = st.lists(
    st.builds(StepCost, st.integers(1, 8), st.sampled_from([1, 2, 3, 5, 9, 256]), st.floats(1e-4, 1.0)),
    min_size=1,
    max_size=20,
)


def table(*rows):
    return table_from_step_costs([StepCost(*row) for row in rows])


@given(costs, st.integers(1, 12), st.integers(1, 300))
def test_more_rows_or_tokens_never_cost_less(measured, batch, tokens):
    seconds = table_from_step_costs(measured).seconds
    assert seconds(batch, tokens) <= seconds(batch + 1, tokens) * (1 + 1e-12)
    assert seconds(batch, tokens) <= seconds(batch, tokens + 1) * (1 + 1e-12)
    assert seconds(batch, tokens) > 0


def test_monotone_measurements_are_kept():
    rows = [(1, 1, 0.1), (1, 5, 0.2), (4, 1, 0.15), (4, 5, 0.6)]
    seconds = table(*rows).seconds
    assert [seconds(b, s) for b, s, _ in rows] == [t for _, _, t in rows]


def test_linear_between_the_measured():
    seconds = table((1, 1, 0.1), (1, 5, 0.2), (3, 1, 0.3), (3, 5, 0.4)).seconds
    assert seconds(1, 2) == pytest.approx(0.125)
    assert seconds(2, 3) == pytest.approx(0.25)


def test_beyond_the_largest_in_proportion_and_below_the_smallest_constant():
    seconds = table((2, 2, 0.1), (2, 4, 0.2)).seconds
    assert seconds(2, 8) == pytest.approx(0.4)
    assert seconds(4, 8) == pytest.approx(0.8)
    assert seconds(1, 1) == 0.1


def test_noise_is_averaged_and_repeats_take_the_fastest():
    seconds = table((1, 1, 0.3), (1, 2, 0.1), (1, 3, 0.5), (1, 3, 0.4)).seconds
    assert [seconds(1, s) for s in (1, 2, 3)] == pytest.approx([0.2, 0.2, 0.4])


def test_batches_may_have_tokens_of_their_own():
    seconds = table((1, 1, 0.1), (1, 9, 0.9), (4, 1, 0.4)).seconds
    assert seconds(4, 1) == 0.4
    assert seconds(4, 9) == pytest.approx(3.6)


def test_nothing_measured_is_no_table():
    assert table_from_step_costs([]) is None


@given(st.lists(st.floats(0, 10), min_size=1, max_size=9))
def test_isotonic_keeps_the_mean_and_the_order(values):
    fitted = isotonic(values)
    assert sum(fitted) == pytest.approx(sum(values), abs=1e-9)
    assert all(a <= b for a, b in pairwise(fitted))
    assert isotonic(fitted) == pytest.approx(fitted, abs=1e-12)
