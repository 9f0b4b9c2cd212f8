"""The frozen cost model against speed-ups that were collected afterwards; bounds are what docs/planning.md reports."""

from __future__ import annotations

from statistics import median

import pytest

from tests.house.tree import ROOT
from tests.later_speedups import LATER_POINTS
from tests.published_speedups import POINTS, Point

PAGE = (ROOT / "docs" / "planning.md").read_text()


def test_no_point_was_seen_before() -> None:
    seen = {(point.name, point.gpu, point.batch) for point in POINTS}
    assert len(LATER_POINTS) >= 8
    assert not seen & {(point.name, point.gpu, point.batch) for point in LATER_POINTS}
    assert sum(point.speedup < 1 for point in LATER_POINTS) >= len(LATER_POINTS) // 3


def test_the_median_error_is_the_reported_one() -> None:
    found = median(abs(point.error) for point in LATER_POINTS)
    assert found < 0.10
    worst = max(abs(point.error) for point in LATER_POINTS)
    assert f"Median error {found:.0%}, largest {worst:.0%}, {len(LATER_POINTS)} points" in PAGE


def test_winners_and_losers_are_told_apart() -> None:
    assert all((point.predicted() < 1) == (point.speedup < 1) for point in LATER_POINTS)


@pytest.mark.parametrize("point", LATER_POINTS, ids=lambda point: f"{point.name}, batch {point.batch}")
def test_the_page_reports_every_point(point: Point) -> None:
    row = row_of_point(point)
    assert row in PAGE, f"docs/planning.md should say: {row}"


def row_of_point(point: Point) -> str:
    """Return the line of the page's second table."""
    return (
        f"| {point.name} | {point.gpu} | {point.batch} | {point.mal:.2f} | {point.speedup:.2f} | "
        f"{point.predicted():.2f} | {point.error:+.0%} |"
    )
