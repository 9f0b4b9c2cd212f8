"""From values to places on a chart, and where its ticks stand."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

NICE: Final = (1.0, 2.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True)
class Scale:
    """A straight map of values, or of their logarithms, to places.

    Attributes:
        low, high: values at the two ends.
        start, end: places of the two ends, in units of the drawing; `end` may be the smaller one, as for heights.
        log: equal factors are equal distances.
    """

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def at(self, value: float) -> float:
        """Return the place of a value, to a tenth of a unit."""
        low, high, here = (math.log(x) if self.log else x for x in (self.low, self.high, value))
        share = 0.5 if high == low else (here - low) / (high - low)
        return round(self.start + share * (self.end - self.start), 1)


def ticks_from_range(high: float, most: int = 5) -> list[float]:
    """Return at most `most` + 1 ticks from 0 to at least `high`, at a step of 1, 2, 2.5 or 5 times a power of ten."""
    if high <= 0:
        return [0.0, 1.0]
    size = 10.0 ** math.floor(math.log10(high / most))
    step = next(nice * size for nice in NICE if nice * size * most >= high * (1 - 1e-9))
    return [round(step * index, 10) for index in range(math.ceil(high / step - 1e-9) + 1)]


def ticks_inside(low: float, high: float) -> list[float]:
    """Return the powers of ten from `low` to `high`, both positive; with twice and five times them where few fit."""
    powers = range(math.floor(math.log10(low)), math.floor(math.log10(high)) + 1)
    ticks = [10.0**power for power in powers if low <= 10.0**power]
    if len(ticks) > 2:
        return ticks
    return [step for power in powers for nice in (1, 2, 5) if low <= (step := nice * 10.0**power) <= high]


def tick_text(value: float) -> str:
    """Return the label of a tick: `0`, `0.5`, `2`, `10k`."""
    for suffix, size in (("M", 1e6), ("k", 1e3)):
        if abs(value) >= 10 * size or (abs(value) >= size and value % size == 0):
            return f"{value / size:g}{suffix}"
    return f"{value:g}"
