"""The cost model against published speed-ups: fixed on the fitted half, reported on the other."""

from __future__ import annotations

from statistics import median

import pytest

from specc.plan.device import SPREAD
from tests.house.tree import ROOT
from tests.published_speedups import POINTS, Point

FITTED = [point for point in POINTS if point.fitted]
HELD_OUT = [point for point in POINTS if not point.fitted]
PAGE = (ROOT / "docs" / "planning.md").read_text()


def test_the_two_halves_are_halves() -> None:
    assert len(POINTS) >= 12
    assert len(FITTED) == len(HELD_OUT)
    assert any(point.speedup < 1 for point in FITTED)
    assert any(point.speedup < 1 for point in HELD_OUT)


def test_the_fitted_half_lies_within_the_spread_but_for_one() -> None:
    beyond = [point.name for point in FITTED if abs(point.error) > SPREAD + 0.01]
    assert beyond == ["Llama-3.1-8B w4a16, EAGLE-3 tree of 60"]


def test_the_held_out_half_is_predicted_to_a_median_under_a_tenth() -> None:
    assert median(abs(point.error) for point in HELD_OUT) < 0.10
    assert sum(abs(point.error) < 0.30 for point in HELD_OUT) >= len(HELD_OUT) - 1


def test_losing_configurations_are_predicted_to_lose() -> None:
    assert all(point.predicted() < 1 for point in POINTS if point.speedup < 1)


@pytest.mark.parametrize("point", POINTS, ids=lambda point: f"{point.name}, batch {point.batch}")
def test_the_page_reports_every_point(point: Point) -> None:
    row = row_of_point(point)
    assert row in PAGE, f"docs/planning.md should say: {row}"


def row_of_point(point: Point) -> str:
    """Return the line of the page's table."""
    half = "fitted" if point.fitted else "held out"
    return (
        f"| {point.name} | {point.gpu} | {point.batch} | {point.mal:.2f} | {point.speedup:.2f} | "
        f"{point.predicted():.2f} | {point.error:+.0%} | {half} |"
    )
