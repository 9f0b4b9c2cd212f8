"""The charts draw the plan's numbers: places are turned back into values and held against it."""

from __future__ import annotations

import math

import pytest

from specc.plan.cost import Interval
from specc.plan.plan import MemoryItem
from specc.plan.prediction import Prediction
from specc.report.chart import Chart, boxes_along, boxes_meet, placed_label
from specc.report.memory_chart import GROUPS, group_of_item, grouped_memory, memory_chart
from specc.report.roofline_chart import roofline_chart
from specc.report.scale import Scale, tick_text, ticks_from_range, ticks_inside
from specc.report.speedup_charts import batch_chart, crossover_text, gamma_chart
from tests.report_subjects import losing, measured, on_a_cpu, on_four_gpus


def predicted(subject) -> Prediction:
    assert isinstance(subject.outlook, Prediction)
    return subject.outlook


def ticks(chart: Chart, *, across: bool, kind: str = "tick") -> list[tuple[float, float]]:
    """Return (place, value) of the ticks of an axis, as a reader takes them from the drawing."""
    wanted = "middle" if across else "end"
    found = [label for label in chart.labels if label.kind == kind and label.anchor == wanted and _number(label.text)]
    return [(label.x if across else label.y - 4, _number(label.text)) for label in found]


def _number(text: str) -> float | None:
    size = {"k": 1e3, "M": 1e6}.get(text[-1], 1.0)
    digits = text[:-1] if size > 1 else text
    return float(digits) * size if digits.replace(".", "").isdigit() else None


def read(chart: Chart, place: float, *, across: bool, log: bool = False) -> float:
    """Return the value at a place by two ticks of the axis."""
    marks = [(at, math.log(value) if log else value) for at, value in ticks(chart, across=across) if value or not log]
    (a, low), (b, high) = marks[0], marks[-1]
    value = low + (place - a) / (b - a) * (high - low)
    return math.exp(value) if log else value


@pytest.mark.parametrize("subject", [on_four_gpus, on_a_cpu, losing])
def test_bars_of_memory_are_the_items_of_the_plan(subject) -> None:
    items, fit = subject().memory, subject().fit
    available = None if fit is None else fit.available_bytes
    chart = memory_chart(items, available, "gpu")
    unit = {"GiB": 1 << 30, "MiB": 1 << 20}[next(x.text for x in chart.labels if x.text in ("GiB", "MiB"))]
    groups = grouped_memory(items)
    total = sum(item.bytes for item in items)
    assert sum(count for _, count in groups) == total
    assert [label.text for label in chart.labels if label.kind == "name"] == [*dict(groups), "total"]
    begin = 0
    step = unit * read(chart, 1, across=True) - unit * read(chart, 0, across=True)
    for bar, count in zip(chart.bars, [*dict(groups).values(), total], strict=True):
        begin = 0 if bar.kind == "total" else begin
        assert unit * read(chart, bar.x, across=True) == pytest.approx(begin, abs=step)
        assert unit * read(chart, bar.x + bar.width, across=True) == pytest.approx(begin + count, abs=1.1 * step)
        begin += count
    limits = [stroke for stroke in chart.strokes if stroke.kind == "limit"]
    assert len(limits) == (available is not None)
    if available is not None:
        place = float(limits[0].d.removeprefix("M").split()[0])
        assert unit * read(chart, place, across=True) == pytest.approx(available, rel=0.01)


def test_a_value_that_fits_neither_side_ends_before_the_limit() -> None:
    """A short bar at the right edge, the limit just before it: Mistral Nemo in bf16 on 24 GB."""
    gib = 1 << 30
    sizes = {"weights: mlp": 22.8, "kv cache": 6.6, "logits": 0.43, "runtime context": 0.54}
    kinds = ("weights", "caches", "scratch", "runtime")
    items = tuple(
        MemoryItem(name, int(size * gib), "", kind) for (name, size), kind in zip(sizes.items(), kinds, strict=True)
    )
    chart = memory_chart(items, 24 * 10**9, "gpu")
    line = next(float(stroke.d[1:].split()[0]) for stroke in chart.strokes if stroke.kind == "limit")
    values = [label for label in chart.labels if label.kind == "value"]
    assert len(values) >= 3
    assert not [label.text for label in values if label.box[0] - 3 < line < label.box[2] + 3]


def test_every_item_has_a_group() -> None:
    groups = {item.name: group_of_item(item) for item in on_four_gpus().memory}
    assert set(groups.values()) == set(GROUPS)
    assert (groups["draft weights: mlp"], groups["draft kv cache"]) == ("draft weights", "KV caches")
    chart = memory_chart((MemoryItem("weights", 10, "", "weights"),), None, "gpu")
    assert chart.bars[0].width > 0


def test_values_keep_off_the_line_of_what_the_gpu_has() -> None:
    gib = 1 << 30
    items = (MemoryItem("weights", 14 * gib, "", "weights"), MemoryItem("logits", gib // 2, "", "scratch"))
    for available in (15 * gib, 16 * gib, 20 * gib, 30 * gib):
        chart = memory_chart(items, available, "gpu")
        line = next(float(stroke.d[1:].split()[0]) for stroke in chart.strokes if stroke.kind == "limit")
        values = [label for label in chart.labels if label.kind == "value"]
        assert [label.text for label in values] == ["512.0 MiB"]
        assert not values[0].box[0] < line < values[0].box[2]


@pytest.mark.parametrize("subject", [on_four_gpus, on_a_cpu, losing, measured])
def test_points_against_batch_are_the_lines_of_the_plan(subject) -> None:
    outlook = predicted(subject())
    chart = batch_chart(outlook, subject().modelled_beside)
    for mark, line in zip(chart.marks, outlook.batches, strict=True):
        assert read(chart, mark.x, across=True, log=True) == pytest.approx(line.batch, rel=0.01)
        assert read(chart, mark.y, across=False) == pytest.approx(line.speedup.mid, abs=0.01)
    gammas = [label.text for label in chart.labels if label.kind == "tick quiet" and label.anchor == "middle"]
    assert gammas == [str(line.gamma) for line in outlook.batches if line.batch & (line.batch - 1) == 0]
    shown = outlook.crossover_batch is not None and outlook.crossover_batch <= outlook.batches[-1].batch
    named = [label.text for label in chart.labels if label.kind == "limit-label"]
    assert named == ([f"AR faster from batch {outlook.crossover_batch}"] if shown else [])
    assert crossover_text(outlook) in chart.description
    assert any(stroke.kind == "model" for stroke in chart.strokes) == (subject is measured)


def test_the_curve_meets_ar_where_it_is_faster() -> None:
    outlook = predicted(on_a_cpu())
    assert outlook.crossover_batch is not None
    chart = batch_chart(outlook)
    limit = next(stroke.d for stroke in chart.strokes if stroke.kind == "limit")
    line = next(stroke.d for stroke in chart.strokes if stroke.kind == "line")
    one = next(stroke.d for stroke in chart.strokes if stroke.kind == "one")
    place = f"{limit.removeprefix('M').split()[0]} {one.split()[1]}"
    assert place in line.replace("M", "").split(" L")


@pytest.mark.parametrize("subject", [on_four_gpus, losing])
def test_points_against_gamma_are_the_lines_of_the_plan(subject) -> None:
    outlook = predicted(subject())
    chart = gamma_chart(outlook)
    points = [mark for mark in chart.marks if mark.kind != "best"]
    for mark, line in zip(points, outlook.gammas, strict=True):
        assert read(chart, mark.x, across=True) == pytest.approx(line.gamma, abs=0.02)
        assert read(chart, mark.y, across=False) == pytest.approx(line.speedup.mid, abs=0.01)
    best = [mark for mark in chart.marks if mark.kind == "best"]
    if outlook.best_gamma:
        assert (best[0].x, best[0].y) == (points[outlook.best_gamma - 1].x, points[outlook.best_gamma - 1].y)
    else:
        assert best == []
        assert "No gamma gains" in chart.caption


@pytest.mark.parametrize(("subject", "unit"), [(on_four_gpus, 1e12), (on_a_cpu, 1e9)])
def test_calls_stand_where_the_plan_puts_them_and_under_the_roof(subject, unit: float) -> None:
    calls = predicted(subject()).calls
    assert calls is not None
    chart = roofline_chart(calls, on_cpu=unit == 1e9)
    for mark, point in zip(chart.marks, calls.points, strict=True):
        intensity, rate = point.flops / point.bytes, point.flops / point.seconds
        assert read(chart, mark.x, across=True, log=True) == pytest.approx(intensity, rel=0.03)
        assert unit * read(chart, mark.y, across=False, log=True) == pytest.approx(rate, rel=0.06)
        assert rate <= min(intensity * calls.reached_bandwidth, max(roof.reached for roof in calls.roofs)) * 1.001
        assert (mark.kind == "mark") == (point.batch == 1)
    assert {mark.shape for mark in chart.marks} == {"circle", "square"} | ({"triangle"} if unit == 1e12 else set())


def test_scales_and_ticks() -> None:
    assert Scale(1, 100, 0, 50, log=True).at(10) == 25
    assert Scale(3, 3, 0, 50).at(3) == 25
    assert ticks_from_range(2.71) == [0, 1, 2, 3]
    assert ticks_from_range(0.9) == [0, 0.2, 0.4, 0.6, 0.8, 1.0]
    assert ticks_from_range(0) == [0, 1]
    assert ticks_inside(0.5, 2000) == [1, 10, 100, 1000]
    assert ticks_inside(0.3, 12) == [0.5, 1, 2, 5, 10]
    assert [tick_text(value) for value in (0.0, 2.5, 1000.0, 20000.0, 3e6)] == ["0", "2.5", "1k", "20k", "3M"]


def test_labels_keep_off_what_is_there() -> None:
    first = placed_label("here", 100, 100, [], 300)
    second = placed_label("here", 100, 100, [first.box], 300)
    assert not boxes_meet(first.box, second.box)
    assert placed_label("here", 290, 100, [], 300).anchor == "end"
    assert any(boxes_meet((48, 48, 52, 52), box) for box in boxes_along([(0, 0), (100, 100)]))


def test_an_exact_line_has_no_interval() -> None:
    outlook = predicted(losing())
    assert outlook.batches[0].speedup == Interval(1.0, 1.0, 1.0)
    assert crossover_text(outlook) == "AR decoding is faster from batch 1"
