"""Speed-up over AR decoding with its interval: against the batch, and against gamma."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from specc.plan.cost import Interval
from specc.plan.prediction import Prediction
from specc.report.chart import WIDTH, Chart, Label, Mark, Point, Stroke, boxes_along, boxes_meet, path
from specc.report.scale import Scale, tick_text, ticks_from_range

LEFT, RIGHT, TOP, BOTTOM, HEIGHT = 46.0, WIDTH - 12.0, 40.0, 206.0, 248.0
INSET: Final = 14.0
MOST_TICKS: Final = 9


@dataclass(frozen=True)
class Frame:
    """The axes of a chart of speed-up.

    Attributes:
        x: of batch or gamma.
        y: of the speed-up.
    """

    x: Scale
    y: Scale

    def places(self, values: list[tuple[float, float]]) -> list[Point]:
        """Return the places of (batch or gamma, speed-up)."""
        return [(self.x.at(x), self.y.at(y)) for x, y in values]


def batch_chart(outlook: Prediction, modelled: Prediction | None = None) -> Chart:
    """Return speed-up against batch, each with its best gamma.

    Args:
        outlook: the prediction.
        modelled: that of the cost model, where measured step costs stand in its place; drawn beside it.
    """
    lines = [(float(line.batch), line.speedup) for line in outlook.batches]
    shown = outlook.batches[-1].batch
    ends = outlook.crossover_batch if (outlook.crossover_batch or shown + 1) <= shown else None
    lines = _with_crossover(lines, ends)
    other = [] if modelled is None else [(float(x.batch), x.speedup.mid) for x in modelled.batches if x.batch <= shown]
    frame = _frame(lines, [y for _, y in other], Scale(1.0, float(shown), LEFT + INSET, RIGHT - INSET, log=True))
    strokes, labels = _axes(frame)
    ticks = [line for line in outlook.batches if line.batch & (line.batch - 1) == 0]
    ticks = ticks[:: math.ceil(len(ticks) / MOST_TICKS)]
    for line in ticks:
        labels.append(Label(frame.x.at(line.batch), BOTTOM + 17, tick_text(line.batch), "middle", "tick"))
        labels.append(Label(frame.x.at(line.batch), BOTTOM + 34, str(line.gamma), "middle", "tick quiet"))
    labels += [Label(0, BOTTOM + 17, "batch", kind="tick"), Label(0, BOTTOM + 34, "gamma", kind="tick quiet")]
    if ends is not None:
        strokes.append(Stroke(path([(frame.x.at(ends), TOP), (frame.x.at(ends), BOTTOM)]), "limit"))
        labels.append(_crossover_label(frame.x.at(ends), ends))
    strokes += _series(frame, lines, other)
    marks = [Mark(frame.x.at(line.batch), frame.y.at(line.speedup.mid), "circle") for line in outlook.batches]
    labels += _legend(modelled)
    labels.append(_ar_label(frame, [[(x, y.mid) for x, y in lines], other]))
    return Chart(
        key="batch",
        title="Speed-up against batch",
        description=_told(lines, "batch") + f"; {crossover_text(outlook)}",
        caption="The band is the interval. Below each batch, the gamma that is best for it; 0 is AR decoding.",
        height=HEIGHT,
        strokes=tuple(strokes),
        bars=(),
        marks=tuple(marks),
        labels=tuple(labels),
    )


def gamma_chart(outlook: Prediction, modelled: Prediction | None = None) -> Chart:
    """Return speed-up against gamma at batch 1; arguments as of `batch_chart`."""
    lines = [(float(line.gamma), line.speedup) for line in outlook.gammas]
    other = (
        []
        if modelled is None
        else [(float(line.gamma), line.speedup.mid) for line in modelled.gammas if line.gamma <= lines[-1][0]]
    )
    last = lines[-1][0]
    frame = _frame(lines, [y for _, y in other], Scale(min(1.0, last), last, LEFT + INSET, RIGHT - INSET))
    strokes, labels = _axes(frame)
    for line in outlook.gammas[:: math.ceil(len(lines) / 12)]:
        labels.append(Label(frame.x.at(line.gamma), BOTTOM + 17, str(line.gamma), "middle", "tick"))
    labels.append(Label(0, BOTTOM + 17, "gamma", kind="tick"))
    strokes += _series(frame, lines, other)
    marks = [Mark(frame.x.at(x), frame.y.at(interval.mid), "circle") for x, interval in lines]
    if outlook.best_gamma:
        best = lines[outlook.best_gamma - 1]
        x, y = frame.x.at(best[0]), frame.y.at(best[1].mid)
        marks.append(Mark(x, y, "circle", "best"))
        labels.append(_inside(f"best: {outlook.best_gamma}, {best[1].mid:.2f} times", x, y - 11, "strong"))
    labels += _legend(modelled)
    labels.append(_ar_label(frame, [[(x, y.mid) for x, y in lines], other]))
    best_text = f"the best gamma is {outlook.best_gamma}" if outlook.best_gamma else "no gamma gains"
    return Chart(
        key="gamma",
        title="Speed-up against gamma, batch 1",
        description=f"{_told(lines, 'gamma')}; {best_text}",
        caption="Gamma: drafts of a round. The band is the interval."
        + ("" if outlook.best_gamma else " No gamma gains at batch 1."),
        height=HEIGHT - 17,
        strokes=tuple(strokes),
        bars=(),
        marks=tuple(marks),
        labels=tuple(labels),
    )


def crossover_text(outlook: Prediction) -> str:
    """Return where speculation does not pay, in words."""
    return f"AR decoding is faster {outlook.slower_batches}"


def _with_crossover(lines: list[tuple[float, Interval]], ends: int | None) -> list[tuple[float, Interval]]:
    """Return the lines with the point at which speculation stops paying, so that the curve reaches 1 there."""
    if ends is None or any(x == ends for x, _ in lines):
        return lines
    return sorted([*lines, (float(ends), Interval(1.0, 1.0, 1.0))], key=lambda line: line[0])


def _frame(lines: list[tuple[float, Interval]], others: list[float], x: Scale) -> Frame:
    highest = max([interval.high for _, interval in lines] + others + [1.2])
    return Frame(x, Scale(0.0, ticks_from_range(highest, 5)[-1], BOTTOM, TOP))


def _axes(frame: Frame) -> tuple[list[Stroke], list[Label]]:
    strokes, labels = [], [Label(0, 12, "times AR decoding", kind="tick")]
    for tick in ticks_from_range(frame.y.high, 5):
        y = frame.y.at(tick)
        strokes.append(Stroke(path([(LEFT, y), (RIGHT, y)]), "axis" if tick == 0 else "grid"))
        labels.append(Label(LEFT - 6, y + 4, tick_text(tick), "end", "tick"))
    strokes.append(Stroke(path([(LEFT, frame.y.at(1.0)), (RIGHT, frame.y.at(1.0))]), "one"))
    return strokes, labels


def _series(frame: Frame, lines: list[tuple[float, Interval]], other: list[tuple[float, float]]) -> list[Stroke]:
    upper = frame.places([(x, y.high) for x, y in lines])
    lower = frame.places([(x, y.low) for x, y in reversed(lines)])
    strokes = [Stroke(path([*upper, *lower], closed=True), "band")]
    if other:
        strokes.append(Stroke(path(frame.places(other)), "model"))
    return [*strokes, Stroke(path(frame.places([(x, y.mid) for x, y in lines])), "line")]


def _legend(modelled: Prediction | None) -> list[Label]:
    if modelled is None:
        return []
    return [Label(RIGHT, 12, "solid: measured, dashed: model", "end", "tick")]


def _ar_label(frame: Frame, curves: list[list[tuple[float, float]]]) -> Label:
    """Return the name of the line at 1, at the first end and side of it where no curve runs; else below its end."""
    y = frame.y.at(1.0)
    tries = [
        Label(RIGHT, y + 15, "AR decoding", "end", "one-label"),
        Label(LEFT + 6, y + 15, "AR decoding", "start", "one-label"),
        Label(RIGHT, y - 6, "AR decoding", "end", "one-label"),
        Label(LEFT + 6, y - 6, "AR decoding", "start", "one-label"),
    ]
    taken = [box for curve in curves for box in boxes_along(frame.places(curve))]
    return next((label for label in tries if not any(boxes_meet(label.box, box) for box in taken)), tries[0])


def _crossover_label(x: float, batch: int) -> Label:
    return _inside(f"AR faster from batch {batch}", x, TOP - 8, "limit-label")


def _inside(text: str, x: float, y: float, kind: str) -> Label:
    """Return a label centred on a place, or moved as little as keeps it inside the drawing."""
    left, _, right, _ = Label(x, y, text, "middle", kind).box
    moved = x + max(0.0, LEFT - left) - max(0.0, right - WIDTH)
    return Label(round(moved, 1), y, text, "middle", kind)


def _told(lines: list[tuple[float, Interval]], what: str) -> str:
    return "; ".join(f"{what} {x:g}: {y.mid:.2f} times ({y.low:.2f} to {y.high:.2f})" for x, y in lines)
