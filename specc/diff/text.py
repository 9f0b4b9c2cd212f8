"""A comparison as lines of text that fit a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap
from typing import Final

from specc.diff.comparison import Change, Comparison, Effects, Quantity, Unit

WIDTH: Final = 80
_SCALES: Final[dict[Unit, tuple[tuple[float, str], ...]]] = {
    "bytes": ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (0, "B")),
    "seconds": ((1, "s"), (1e-3, "ms"), (0, "us")),
    "ratio": ((0, ""),),
}


def lines_from_comparison(comparison: Comparison) -> list[str]:
    """Return the lines: what changed, then its effects, then notes; a part without a difference is left out.

    Values that are too long for a line are cut.
    """
    lines = []
    for letter, side in (("A", comparison.a), ("B", comparison.b)):
        lines += wrap(f"{letter}  {side.kind} {side.path}", WIDTH, subsequent_indent="   ")
    for part in comparison.changes:
        if part.changes:
            lines += ["", part.part]
            lines += [line for change in part.changes for line in _change(change)]
    for effects in comparison.effects:
        if any(quantity.a != quantity.b for quantity in effects.quantities):
            lines += ["", *_table(effects)]
    if comparison.same:
        lines += ["", f"no difference in {', '.join(part.part for part in comparison.changes)}"]
    if comparison.notes:
        lines.append("")
        for note in comparison.notes:
            lines += wrap(f"note: {note}", WIDTH, subsequent_indent="      ")
    return [_cut(line, WIDTH) for line in lines]


def _change(change: Change) -> Iterator[str]:
    a, b = (("(absent)" if value is None else value) for value in (change.a, change.b))
    line = f"  {change.key}: {a} -> {b}"
    if len(line) <= WIDTH:
        yield line
        return
    yield f"  {change.key}"
    yield from (f"    A {a}", f"    B {b}")


def _table(effects: Effects) -> Iterator[str]:
    yield f"{effects.part:<36}{'A':>13}{'B':>13}{'change':>12}"
    for quantity in effects.quantities:
        if quantity.a == quantity.b and not effects.measured and quantity.name != "total":
            continue
        a, b = (_number(value, quantity.unit) for value in (quantity.a, quantity.b))
        yield f"  {_cut(quantity.name, 34):<34}{a:>13}{b:>13}{_change_of(quantity):>12}"


def _number(value: float | None, unit: Unit) -> str:
    if value is None:
        return "-"
    for least, name in _SCALES[unit]:
        if value >= least:
            scaled = value / least if least else value * (1e6 if name == "us" else 1)
            return f"{scaled:.0f} B" if name == "B" else f"{scaled:.2f} {name}".rstrip()
    raise AssertionError


def _change_of(quantity: Quantity) -> str:
    if not quantity.a or quantity.b is None:
        return ""
    return "=" if quantity.a == quantity.b else f"{100 * (quantity.b / quantity.a - 1):+.1f} %"


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 3]}..."
