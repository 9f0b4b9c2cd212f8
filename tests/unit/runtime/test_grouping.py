"""Calls of a step: every row is served once, within the profiles, at the least cost of all groupings."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specc.bundle.certificate import StepCost
from specc.bundle.manifest import ProfileSpec
from specc.errors import SpeccBug
from specc.runtime.call_costs import CallCosts, CallShape
from specc.runtime.grouping import CallPlanner, Need
from specc.speculation.step_costs import table_from_step_costs
from tests.double_runner import toy_spec


def needs_of(widths: dict[int, int]) -> tuple[Need, ...]:
    return tuple(Need(slot, tokens, min(tokens, 5)) for slot, tokens in sorted(widths.items()))


def partitions(items: tuple[Need, ...]):
    if not items:
        yield []
        return
    first, rest = items[0], items[1:]
    for size in range(len(rest) + 1):
        for chosen in combinations(rest, size):
            others = tuple(item for item in rest if item not in chosen)
            for tail in partitions(others):
                yield [(first, *chosen), *tail]


def cheapest_of_all(needs: tuple[Need, ...], costs: CallCosts) -> float:
    """Every partition of the rows into calls, each over the range of slots that it spans."""
    return min(
        sum(costs.seconds(g[-1].slot - g[0].slot + 1, max(n.tokens for n in g)) for g in groups)
        for groups in partitions(needs)
    )


def costs_from(fixed: float, per_token: float) -> CallCosts:
    grid = [StepCost(b, s, fixed + per_token * b * s) for b in (1, 2, 4, 8) for s in (1, 2, 4, 8, 32)]
    return CallCosts(toy_spec(), table_from_step_costs(grid))


@given(
    st.dictionaries(st.integers(0, 5), st.sampled_from([1, 1, 3, 5, 32]), min_size=1, max_size=5),
    st.sampled_from([0.0, 1.0, 5.0, 100.0]),
)
@settings(max_examples=150, deadline=None)
def test_rows_are_served_once_and_no_grouping_is_much_cheaper(widths, fixed):
    needs, costs = needs_of(widths), costs_from(fixed, 1.0)
    planner = CallPlanner(costs)
    calls = planner.plan(needs)
    assert sorted(slot for call in calls for slot in call.slots) == sorted(widths)
    for call in calls:
        assert all(call.first_slot <= slot < call.first_slot + call.shape.batch for slot in call.slots)
        assert call.shape.tokens == max(widths[slot] for slot in call.slots)
    cost = sum(costs.seconds(call.shape.batch, call.shape.tokens) for call in calls)
    assert cost == pytest.approx(planner.cost(needs), rel=1e-9)
    best = cheapest_of_all(needs, costs)
    assert best * (1 - 1e-9) <= cost <= best * 1.05  # thresholds and ranges, not every partition


def test_memory_bound_costs_take_one_call_and_compute_bound_ones_separate_widths():
    needs = needs_of({0: 1, 1: 5, 2: 1, 3: 5})
    assert len(CallPlanner(costs_from(100.0, 1.0)).plan(needs)) == 1
    calls = CallPlanner(costs_from(0.01, 1.0)).plan(needs)
    assert sorted(call.shape.tokens for call in calls) == [1, 1, 5, 5]


def test_without_measurements_rounds_share_a_call_and_a_long_chunk_does_not():
    planner = CallPlanner(CallCosts(toy_spec(), None))
    assert len(planner.plan(needs_of({0: 1, 1: 5, 2: 1, 3: 9}))) == 1
    assert len(planner.plan(needs_of({0: 1, 1: 5, 2: 1, 3: 200}))) == 2


def test_free_slots_at_the_ends_are_left_out():
    (call,) = CallPlanner(CallCosts(toy_spec(), None)).plan(needs_of({2: 1, 3: 1}))
    assert (call.first_slot, call.shape) == (2, CallShape(batch=2, tokens=1, logit_rows=1))


def test_shapes_are_padded_up_to_a_profile_and_split_where_none_holds_them():
    profiles = (
        ProfileSpec("decode", (1, 2, 2), (1, 1, 1), (1, 1, 1)),
        ProfileSpec("verify", (1, 2, 2), (5, 5, 5), (5, 5, 5)),
    )
    planner = CallPlanner(CallCosts(toy_spec(profiles=profiles), None))
    calls = planner.plan(needs_of({0: 1, 1: 1, 2: 1, 3: 3}))
    assert all(call.shape.batch <= 2 for call in calls)
    assert CallShape(2, 5, 5) in [call.shape for call in calls] or CallShape(1, 5, 5) in [c.shape for c in calls]
    with pytest.raises(SpeccBug, match="no profile"):
        planner.plan(needs_of({0: 6}))
