"""How results look on a terminal: errors on standard error, results on standard output, progress on standard error."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from specc.errors import SpeccError

WIDTH: Final = 80
"""Columns of a terminal that text is wrapped at."""
OUT: Final = Console(highlight=False, soft_wrap=True, emoji=False)
ERR: Final = Console(stderr=True, highlight=False, soft_wrap=True, emoji=False)


def show_error(error: SpeccError) -> None:
    """Print a user's error, without a traceback; code and place stay on a line, whatever its length."""
    ERR.print(f"{error.code} {error.place}", markup=False)
    for label, text in (("", error.got), ("Why: ", error.why), ("Fix: ", error.fix)):
        ERR.print(wrapped(text, f"  {label}", " " * (2 + len(label))), markup=False)


def show_json(value: Any) -> None:  # noqa: ANN401 - any JSON value
    """Print one JSON value on one line of standard output, with escapes where that cannot show every character."""
    plain = (sys.stdout.encoding or "ascii").lower().replace("-", "") != "utf8"
    sys.stdout.write(json.dumps(value, ensure_ascii=plain) + "\n")


def show_pairs(pairs: list[tuple[str, str]]) -> None:
    """Print names and values, aligned; long values go on below themselves."""
    width = max(len(name) for name, _ in pairs)
    for name, value in pairs:
        OUT.print(wrapped(value, f"{name:<{width}}  ", " " * (width + 2)), markup=False)


def show_table(columns: list[str], rows: list[list[str]], right: frozenset[int] = frozenset()) -> None:
    """Print a plain table; the columns in `right` are aligned right."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for index, column in enumerate(columns):
        table.add_column(column, justify="right" if index in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(cell.replace("[", r"\[") for cell in row))
    with OUT.capture() as captured:
        OUT.print(table)
    for line in captured.get().splitlines():
        OUT.out(line.rstrip(), highlight=False)


def wrapped(text: str, first: str = "", following: str = "") -> str:
    """Return text in lines of at most 80 columns; names, paths and options stay whole.

    Args:
        text: of any length.
        first: what the first line begins with.
        following: what the other lines begin with.
    """
    return textwrap.fill(
        text, WIDTH, initial_indent=first, subsequent_indent=following, break_long_words=False, break_on_hyphens=False
    )


def show_notes(notes: Iterable[str]) -> None:
    """Print notes."""
    for note in notes:
        OUT.print(wrapped(note, "note: ", " " * 6), markup=False)


class Bars:
    """Progress bars of long stages, one a stage, on standard error."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._tasks: dict[str, TaskID] = {}

    def __call__(self, what: str, done: int, total: int) -> None:
        """Show how far a stage is."""
        if what not in self._tasks:
            self._tasks[what] = self._progress.add_task(what, total=total)
        self._progress.update(self._tasks[what], completed=done, total=total)


@contextmanager
def progress_bars() -> Iterator[Bars]:
    """Show progress while the block runs; nothing where standard error is no terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=ERR, transient=True, disable=not ERR.is_terminal) as progress:
        yield Bars(progress)
