"""How calls are timed: alone, or in turns with others like them."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from statistics import median
from typing import Final, TypeVar

Key = TypeVar("Key", bound=Hashable)

LEAST_ROUNDS: Final = 3


def best_seconds(call: Callable[[], object], seconds: float) -> float:
    """Return the shortest time of a call among those that fit into so many seconds, at least two, after a warm-up."""
    call()
    best, calls, ends = float("inf"), 0, time.perf_counter() + seconds
    while calls < 2 or time.perf_counter() < ends:
        started = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - started)
        calls += 1
    return best


def seconds_in_turns(groups: Sequence[Mapping[Key, Callable[[], object]]], seconds: float) -> dict[Key, float]:
    """Return the median time of each call, of as many rounds as fit into so many seconds, at least three.

    Calls of a group read the same memory. A round takes one call of each group after the other, in another random
    order, until all were made: so what a call reads has left the caches when its turn comes, and a slow moment of a
    shared machine falls on all.
    """
    order, rounds, ends = random.Random(0), 0, 0.0  # noqa: S311 - an order, no secret
    times: dict[Key, list[float]] = {key: [] for group in groups for key in group}
    for group in groups:
        for call in group.values():
            call()
    ends = time.perf_counter() + seconds
    while rounds < LEAST_ROUNDS or time.perf_counter() < ends:
        shuffled = [order.sample(list(group.items()), len(group)) for group in groups]
        for turn in zip(*shuffled, strict=True):
            for key, call in turn:
                started = time.perf_counter()
                call()
                times[key].append(time.perf_counter() - started)
        rounds += 1
    return {key: median(taken) for key, taken in times.items()}
