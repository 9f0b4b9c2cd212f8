"""Numbers as people read them, the same in the terminal and in the report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specc.catalog.gpus import gigabytes_text

if TYPE_CHECKING:  # commands that only print sizes do not wait for the planner
    from specc.plan.cost import Interval


def bytes_text(count: int) -> str:
    """Return a number of bytes as people read it, in powers of 1024."""
    amount = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024 or unit == "GiB":
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    raise AssertionError


def capacity_text(count: int) -> str:
    """Return the memory of a GPU as its maker states it, and in the unit of the rest: `80 GB (74.5 GiB)`."""
    return f"{gigabytes_text(count)} ({bytes_text(count)})"


def range_text(interval: Interval, digits: int = 2) -> str:
    """Return the ends of an interval as `1.21 to 2.90`; `-` where it is a point, as that of AR decoding itself."""
    if interval.low == interval.high:
        return "-"
    return f"{interval.low:.{digits}f} to {interval.high:.{digits}f}"


def duration_text(milliseconds: float) -> str:
    """Return a duration with the digits that a prediction has: `0.42 ms`, `13.6 ms`, `242 ms`, `6.56 s`."""
    if milliseconds >= 1000:
        return f"{milliseconds / 1000:.2f} s"
    digits = 2 if milliseconds < 10 else 1 if milliseconds < 100 else 0
    return f"{milliseconds:.{digits}f} ms"


def decimal_text(value: float, unit: str) -> str:
    """Return a number with a decimal prefix before its unit: `70.7 GB`."""
    for prefix, size in (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6)):
        if value >= size:
            return f"{value / size:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}"


def rate_text(per_second: float, unit: str) -> str:
    """Return a rate with a decimal prefix: `3.35 TB/s`."""
    return f"{decimal_text(per_second, unit)}/s"
