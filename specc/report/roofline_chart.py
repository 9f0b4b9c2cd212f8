"""Where AR, verify and draft calls stand under the roofline of the device."""

from __future__ import annotations

from typing import Final, Literal

from specc.plan.calls import PredictedCalls
from specc.report.chart import WIDTH, Chart, Label, Mark, Point, Stroke, boxes_along, path, placed_label
from specc.report.numbers import duration_text, rate_text
from specc.report.scale import Scale, tick_text, ticks_inside

LEFT, RIGHT, TOP, BOTTOM, HEIGHT = 46.0, WIDTH - 12.0, 26.0, 236.0, 276.0
ON_GPU: Final = (
    "Solid: what the model takes as reached; dotted: the data sheet. Left of the ridge a call waits for memory, so "
    "more rows in it are nearly free; what lies below the roof pays for launches and links."
)
ON_CPU: Final = (
    "Solid: what the model takes as reached; dotted: what the probe measured. The cores that read also multiply, so "
    "calls stay below the roof and no row is free."
)
SHAPES: Final[dict[str, Literal["circle", "square", "triangle"]]] = {
    "AR": "circle",
    "verify": "square",
    "draft": "triangle",
}


def roofline_chart(calls: PredictedCalls, *, on_cpu: bool) -> Chart:
    """Return operations per second against operations per byte, both axes logarithmic.

    Args:
        calls: of the cost model.
        on_cpu: peaks are a probe's, and reading and computing do not hide each other.
    """
    prefix, unit = ("G", 1e9) if on_cpu else ("T", 1e12)
    x, y = _scales(calls, unit)
    across, up = ticks_inside(x.low, x.high), ticks_inside(y.low, y.high)
    target = calls.roofs[0]
    strokes = [
        *(Stroke(path([(x.at(tick), TOP), (x.at(tick), BOTTOM)]), "grid") for tick in across),
        *(Stroke(path([(LEFT, y.at(tick)), (RIGHT, y.at(tick))]), "grid") for tick in up),
        Stroke(path([(LEFT, BOTTOM), (RIGHT, BOTTOM)]), "axis"),
        Stroke(path(_roof((x, y, unit), calls.bandwidth, target.peak)), "sheet"),
        *(Stroke(path(_roof((x, y, unit), calls.reached_bandwidth, roof.reached)), "roof") for roof in calls.roofs),
    ]
    labels = [
        Label(0, 12, f"{prefix} operations per second", kind="tick"),
        Label(RIGHT, BOTTOM + 34, "operations per byte", "end", "tick"),
        *(Label(x.at(tick), BOTTOM + 17, tick_text(tick), "middle", "tick") for tick in across),
        *(Label(LEFT - 6, y.at(tick) + 4, tick_text(tick), "end", "tick") for tick in up),
    ]
    # Above the slope no call can stand, so the names of the roofs find room in the upper left.
    names = [f"memory {rate_text(calls.reached_bandwidth, 'B')}"]
    names += [f"{roof.arithmetic} {rate_text(roof.reached, 'op')}" for roof in calls.roofs]
    labels += [Label(LEFT + 8, TOP + 16 + 16 * index, name) for index, name in enumerate(names)]
    places = [(x.at(p.flops / p.bytes), y.at(p.flops / p.seconds / unit)) for p in calls.points]
    marks, taken = [], [label.box for label in labels]
    taken += boxes_along(_roof((x, y, unit), calls.reached_bandwidth, target.reached))
    taken += [(px - 6, py - 6, px + 6, py + 6) for px, py in places]
    for point, (px, py) in zip(calls.points, places, strict=True):
        marks.append(Mark(px, py, SHAPES[point.what], "mark" if point.batch == 1 else "mark hollow"))
        label = placed_label(f"{point.what} {point.batch}", px, py, taken, RIGHT)
        taken.append(label.box)
        labels.append(label)
    return Chart(
        key="roofline",
        title="Roofline: where calls stand",
        description="; ".join(
            f"{p.what}, batch {p.batch}: {p.flops / p.bytes:.1f} operations per byte, "
            f"{rate_text(p.flops / p.seconds, 'op')}, {duration_text(p.seconds * 1e3)}"
            for p in calls.points
        ),
        caption=f"The number is the batch. {ON_CPU if on_cpu else ON_GPU}",
        height=HEIGHT,
        strokes=tuple(strokes),
        bars=(),
        marks=tuple(marks),
        labels=tuple(labels),
    )


def _scales(calls: PredictedCalls, unit: float) -> tuple[Scale, Scale]:
    """Return axes that hold all calls and the highest ridge, with room for labels."""
    peak = max(roof.peak for roof in calls.roofs)
    intensities = [point.flops / point.bytes for point in calls.points]
    rates = [point.flops / point.seconds / unit for point in calls.points]
    right = max(*intensities, peak / calls.reached_bandwidth) * 2.5
    return (
        Scale(min(intensities) / 2.5, right, LEFT, RIGHT, log=True),
        Scale(min(rates) / 2.5, peak / unit * 1.6, BOTTOM, TOP, log=True),
    )


def _roof(axes: tuple[Scale, Scale, float], bandwidth: float, rate: float) -> list[Point]:
    x, y, unit = axes
    first = max(x.low, y.low * unit / bandwidth)
    ridge = rate / bandwidth
    corners = [(first, first * bandwidth), (ridge, rate), (x.high, rate)]
    return [(x.at(across), y.at(up / unit)) for across, up in corners]
