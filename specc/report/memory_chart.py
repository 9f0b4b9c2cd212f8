"""Memory of one GPU: groups of items, each beginning where the one before ends, against what the GPU has."""

from __future__ import annotations

from typing import Final

from specc.plan.plan import MemoryItem
from specc.report.chart import WIDTH, Bar, Chart, Label, Stroke, path
from specc.report.numbers import bytes_text, capacity_text
from specc.report.scale import Scale, tick_text, ticks_from_range

GROUPS: Final = ("target weights", "draft weights", "KV caches", "working memory", "runtime context")
"""Names of the groups, in the order of the bars."""
LEFT, RIGHT, ROW, THICK = 116.0, WIDTH - 14.0, 28.0, 16.0
UNITS: Final = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))


def grouped_memory(items: tuple[MemoryItem, ...]) -> list[tuple[str, int]]:
    """Return the bytes of each group that has any, in order."""
    sums = dict.fromkeys(GROUPS, 0)
    for item in items:
        sums[group_of_item(item)] += item.bytes
    return [(name, count) for name, count in sums.items() if count]


def group_of_item(item: MemoryItem) -> str:
    """Return the group of a line of the memory table."""
    if item.kind == "weights":
        return "draft weights" if item.name.startswith("draft ") else "target weights"
    return {"caches": "KV caches", "scratch": "working memory", "runtime": "runtime context"}[item.kind]


def memory_chart(items: tuple[MemoryItem, ...], available: int | None, device: str) -> Chart:
    """Return the chart.

    Args:
        items: of one GPU.
        available: memory of one GPU; None where it is not known, as of a CPU.
        device: how one of them is called.
    """
    groups = grouped_memory(items)
    total = sum(count for _, count in groups)
    largest = max(total, available or 0)
    unit, size = next(((name, step) for name, step in UNITS if largest >= step), UNITS[-1])
    ticks = ticks_from_range(largest / size, 4)
    scale = Scale(0.0, ticks[-1], LEFT, RIGHT)
    first = 4.0 if available is None else 34.0
    bottom = first + ROW * (len(groups) + 1)
    strokes = [Stroke(path([(scale.at(tick), first), (scale.at(tick), bottom)]), "grid") for tick in ticks]
    labels = [Label(scale.at(tick), bottom + 16, tick_text(tick), "middle", "tick") for tick in ticks]
    labels.append(Label(0, bottom + 16, unit, kind="tick"))
    limit = None if available is None else scale.at(available / size)
    bars = []
    for row, (name, count, begin) in enumerate([*_begun(groups), ("total", total, 0)]):
        top = first + row * ROW + (ROW - THICK) / 2
        left, right = scale.at(begin / size), scale.at((begin + count) / size)
        kind = "total" if name == "total" else "part"
        bars.append(Bar(left, top, max(1.0, round(right - left, 1)), THICK, kind))
        labels.append(Label(0, top + 12, name, kind="name"))
        labels.append(_value(bytes_text(count), left, right, top + 12, limit))
    if available is not None and limit is not None:
        strokes.append(Stroke(path([(limit, first - 8), (limit, bottom)]), "limit"))
        labels.append(Label(RIGHT, first - 14, f"{capacity_text(available)} of one {device}", "end", "limit-label"))
    return Chart(
        key="memory",
        title=f"Memory of one {device}" if available is not None else "Memory",
        description="; ".join(f"{name} {bytes_text(count)}" for name, count in [*groups, ("total", total)]),
        caption="Each bar begins where the one before ends."
        + ("" if available is None else " The dashed line is what the GPU has."),
        height=bottom + 24,
        strokes=tuple(strokes),
        bars=tuple(bars),
        marks=(),
        labels=tuple(labels),
    )


def _begun(groups: list[tuple[str, int]]) -> list[tuple[str, int, int]]:
    begin, begun = 0, []
    for name, count in groups:
        begun.append((name, count, begin))
        begin += count
    return begun


def _value(text: str, left: float, right: float, y: float, limit: float | None) -> Label:
    """Return a bar's value: inside it where there is room, else behind or before it, off the line of the limit.

    Where both would be crossed or cut off it ends before the line.
    """
    inside = Label(right - 5, y, text, "end", "inside")
    behind, before = Label(right + 5, y, text, "start", "value"), Label(left - 5, y, text, "end", "value")
    if inside.box[0] >= left + 3:
        return inside
    free = [
        label
        for label in (behind, before)
        if label.box[0] >= LEFT and label.box[2] <= WIDTH and (limit is None or not _crosses(label, limit))
    ]
    if free or limit is None or limit > left:
        return free[0] if free else before
    return Label(limit - 5, y, text, "end", "value")


def _crosses(label: Label, x: float) -> bool:
    return label.box[0] - 3 < x < label.box[2] + 3
