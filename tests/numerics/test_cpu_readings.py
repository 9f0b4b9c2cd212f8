"""The cost model of CPUs against calls that were measured, of models that it was and was not made from."""

from __future__ import annotations

from statistics import median

import pytest

from tests.cpu_readings import Reading, readings

AIMED_AT = 0.25


@pytest.mark.parametrize("reading", readings(), ids=lambda r: f"{r.bundle}-{r.context}-{r.batch}")
def test_calls_are_predicted_within_a_quarter(reading: Reading) -> None:
    assert reading.step == pytest.approx(1, abs=AIMED_AT)
    assert list(reading.ratios.values()) == pytest.approx([1.0] * len(reading.ratios), abs=AIMED_AT)


def test_most_are_much_closer() -> None:
    ratios = [abs(value - 1) for reading in readings() for value in reading.ratios.values()]
    assert len(ratios) == 7 * 3 * (4 + 4)
    assert median(ratios) < 0.03
    assert median(abs(reading.step - 1) for reading in readings()) < 0.08


@pytest.mark.parametrize("scheme", ["f32", "w8a16", "w4a16"])
def test_every_scheme_and_length_is_among_them(scheme: str) -> None:
    assert {(r.context, r.batch) for r in readings() if r.bundle == f"smollm2-{scheme}"} == {
        (context, batch) for context in (16, 128, 400) for batch in (1, 4)
    }
