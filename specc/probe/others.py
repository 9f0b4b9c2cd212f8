"""What share of the processors other work takes: a probe beside it says several times too much."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

STAT: Final = Path("/proc/stat")
SECONDS: Final = 0.5
MOST: Final = 0.1
"""Share of the processors' time that other work may take beside a probe whose result is remembered."""
IDLE: Final = (3, 4)
"""Places of `idle` and `iowait` among a processor's times. Source: proc_stat(5)."""
TIMES: Final = 8
"""Times that add up to the whole, `steal` the last; guests' are part of the user's."""


def busy_share(seconds: float = SECONDS, stat: Path = STAT) -> float | None:
    """Return the share of their time that this process's processors are busy while it sleeps; None: not told here.

    Args:
        seconds: to sleep.
        stat: where the kernel counts the processors' times.
    """
    before = _times(stat)
    time.sleep(seconds)
    after = _times(stat)
    if before is None or after is None:
        return None
    whole = [last - first for first, last in zip(before, after, strict=True)]
    total = sum(whole)
    return None if total <= 0 else 1 - sum(whole[place] for place in IDLE) / total


def _times(stat: Path) -> list[int] | None:
    """Return the times of the processors that this process may use, added up; None where the kernel tells none."""
    if not stat.is_file():  # other systems than Linux
        return None
    wanted = {f"cpu{number}" for number in os.sched_getaffinity(0)}
    rows = [line.split() for line in stat.read_text(encoding="ascii").splitlines()]
    counted = [[int(text) for text in row[1 : TIMES + 1]] for row in rows if row and row[0] in wanted]
    return [sum(column) for column in zip(*counted, strict=True)] if counted else None
