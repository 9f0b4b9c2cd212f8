"""What a chart consists of, in the units of its own drawing: the template only writes it down as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal, TypeAlias

WIDTH: Final = 360
"""Units across a drawing. On a page of 400 px one unit is a pixel, so text of 12 units is readable there."""
CHARACTER: Final = 7.3
"""Units across one character of a label, on average of the wider fonts: what keeps labels apart and inside."""
BOLD: Final = 1.15
"""Times that, where the label is bold."""

Anchor: TypeAlias = Literal["start", "middle", "end"]
Point: TypeAlias = tuple[float, float]
Box: TypeAlias = tuple[float, float, float, float]
"""Left, top, right and bottom."""


@dataclass(frozen=True)
class Label:
    """Text at a place.

    Attributes:
        kind: its class in the style sheet.
    """

    x: float
    y: float
    text: str
    anchor: Anchor = "start"
    kind: str = "label"

    @property
    def box(self) -> Box:
        """Return left, top, right and bottom of the text, as far as they can be known."""
        width = len(self.text) * CHARACTER * (BOLD if self.kind == "strong" else 1.0)
        left = self.x - {"start": 0.0, "middle": width / 2, "end": width}[self.anchor]
        return left, self.y - 10, left + width, self.y + 3


@dataclass(frozen=True)
class Stroke:
    """A line or, where it is closed, an area: the `d` of an SVG path and its class."""

    d: str
    kind: str


@dataclass(frozen=True)
class Bar:
    """A rectangle."""

    x: float
    y: float
    width: float
    height: float
    kind: str


@dataclass(frozen=True)
class Mark:
    """A point of data; its shape says what it is, its fill of which group, so that no colour has to."""

    x: float
    y: float
    shape: Literal["circle", "square", "triangle"]
    kind: str = "mark"


@dataclass(frozen=True)
class Chart:
    """One drawing.

    Attributes:
        key: unique on the page.
        title, description: what it shows and what it says, also for those who cannot see it.
        caption: below the drawing: how to read it.
        height: units; the width is always `WIDTH`.
    """

    key: str
    title: str
    description: str
    caption: str
    height: float
    strokes: tuple[Stroke, ...]
    bars: tuple[Bar, ...]
    marks: tuple[Mark, ...]
    labels: tuple[Label, ...]


def path(points: Sequence[Point], *, closed: bool = False) -> str:
    """Return the `d` of a path through points."""
    steps = " L".join(f"{x:g} {y:g}" for x, y in points)
    return f"M{steps}{' Z' if closed else ''}"


def placed_label(text: str, x: float, y: float, taken: Sequence[Box], right: float) -> Label:
    """Return a label beside a point, in the first place where it meets nothing and stays inside; else above it.

    Args:
        text: of the label.
        x: across, of the point.
        y: down, of the point.
        taken: boxes that it must not meet.
        right: end of the space.
    """
    tries = [
        Label(x + 8, y + 4, text),
        Label(x - 8, y + 4, text, "end"),
        Label(x, y - 9, text, "middle"),
        Label(x, y + 18, text, "middle"),
        Label(x + 7, y + 16, text),
        Label(x + 7, y - 7, text),
        Label(x - 7, y + 16, text, "end"),
        Label(x - 7, y - 7, text, "end"),
        Label(x + 7, y + 30, text),
        Label(x - 7, y + 30, text, "end"),
    ]  # fmt: skip
    for label in tries:
        left, _, end, _ = label.box
        if left >= 0 and end <= right and not any(boxes_meet(label.box, box) for box in taken):
            return label
    return tries[2]


def boxes_along(points: Sequence[Point]) -> list[Box]:
    """Return small boxes along a line through points, for labels to keep off."""
    boxes = []
    for (x0, y0), (x1, y1) in pairwise(points):
        steps = max(1, round(max(abs(x1 - x0), abs(y1 - y0)) / 4))
        for step in range(steps + 1):
            x, y = x0 + (x1 - x0) * step / steps, y0 + (y1 - y0) * step / steps
            boxes.append((x - 2, y - 2, x + 2, y + 2))
    return boxes


def boxes_meet(a: Box, b: Box) -> bool:
    """Tell whether two boxes have an area in common."""
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
