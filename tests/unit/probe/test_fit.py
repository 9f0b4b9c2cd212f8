"""Terms of work are found again from timings, and none is negative."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specc.plan.work_cost import WorkCost, WorkTerms
from specc.probe.fit import cost_from_times

SIZES = [(512, 512), (512, 4096), (2048, 512), (2048, 4096)]
TERM = st.floats(1e-12, 1e-3)


def timed(cost: WorkCost, rows: tuple[int, ...]) -> dict[tuple[int, int, int], float]:
    return {(m, n, r): cost.seconds(m, n, r) for m, n in SIZES for r in rows}


@given(start=TERM, first=TERM, second=TERM, both=TERM)
def test_timings_that_terms_explain_are_explained(start: float, first: float, second: float, both: float) -> None:
    known = WorkCost((WorkTerms(1, start, first, second, both),))
    found = cost_from_times(timed(known, (1,)))
    for m, n in [*SIZES, (1024, 3000)]:
        assert found.seconds(m, n, 1) == pytest.approx(known.seconds(m, n, 1), rel=1e-5)


@given(times=st.lists(st.floats(1e-6, 1e-2), min_size=4, max_size=4))
def test_no_term_is_negative_and_large_work_takes_time(times: list[float]) -> None:
    (terms,) = cost_from_times({(*size, 1): taken for size, taken in zip(SIZES, times, strict=True)}).terms
    assert min(terms.start, terms.first, terms.second, terms.both) >= 0
    assert terms.seconds(4096, 4096, 1) > 0


@given(start=TERM, both=TERM, pieces=st.integers(1, 8))
def test_pieces_that_start_together_are_told_apart(start: float, both: float, pieces: int) -> None:
    known = WorkCost((WorkTerms(1, start, 0.0, 0.0, both),))
    found = cost_from_times({(m, n, 1): known.seconds(m, n, 1, pieces) for m, n in SIZES}, pieces=pieces)
    assert found.seconds(1024, 1024, 1, 3) == pytest.approx(known.seconds(1024, 1024, 1, 3), rel=1e-5)


def test_rows_are_interpolated_and_go_on_beyond_the_last() -> None:
    cost = WorkCost(tuple(WorkTerms(rows, 0.0, 0.0, 0.0, both) for rows, both in ((1, 2.0), (3, 4.0), (5, 10.0))))
    assert [cost.seconds(1, 1, rows) for rows in (0.5, 1, 2, 3, 4, 5, 6)] == [2, 2, 3, 4, 7, 10, 13]
    assert cost.most_rows == 5


def test_more_rows_never_cost_less_than_the_last_but_one() -> None:
    """A noisy timing of the most rows does not make long calls free."""
    cost = WorkCost((WorkTerms(1, 3.0, 0.0, 0.0, 0.0), WorkTerms(2, 1.0, 0.0, 0.0, 0.0)))
    assert cost.seconds(1, 1, 100) == 3.0
