"""Readings of several contenders, each taken by a process of its own, in turns: what benchmarks that compare share.

Two engines in one process do not compare: over the same bundle the second was 12 % faster in f32 and 19 % slower in
w4a16 than the first, whichever of them was called first. So every reading is a fresh process, and what is printed are
ratios within a round.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Final, TypeAlias

Reading: TypeAlias = dict[str, float]
"""What one process read, by name: seconds, bytes."""

CLOCKS: Final = {"cpu": time.process_time, "wall": time.perf_counter}
"""Of readings that may be of either kind."""


def readings_in_turns(commands: Mapping[str, Sequence[str]], rounds: int) -> dict[str, list[Reading]]:
    """Return the readings of every contender, one a round, in the order of the rounds; they go to stderr as they come.

    Args:
        commands: by name of the contender, the arguments of a Python process that prints its reading as its last line.
        rounds: in each of which every contender runs once; each round begins with another one.
    """
    names = list(commands)
    readings: dict[str, list[Reading]] = {name: [] for name in names}
    for number in range(rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            done = subprocess.run([sys.executable, *commands[name]], stdout=subprocess.PIPE, text=True, check=False)
            if done.returncode:
                raise SystemExit(f"the process that reads {name} ended with status {done.returncode}")
            line = done.stdout.splitlines()[-1]
            print(f"round {number}, {name}: {line}", file=sys.stderr, flush=True)
            readings[name].append(json.loads(line))
    return readings


def ratios(readings: Mapping[str, Sequence[Reading]], what: str, *, of: str, over: str) -> list[float]:
    """Return, round by round, what contender `of` read over what contender `over` did."""
    return [top[what] / bottom[what] for top, bottom in zip(readings[of], readings[over], strict=True)]


def spread(values: Iterable[float]) -> str:
    """Return the median, the least and the most."""
    found = list(values)
    return f"{median(found):.3f} ({min(found):.3f} to {max(found):.3f})"
