"""From timings of work at a few sizes to the terms of its cost."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Final

import numpy as np
import numpy.typing as npt

from specc.plan.work_cost import WorkCost, WorkTerms

TERMS: Final = 4


def cost_from_times(times: Mapping[tuple[int, int, int], float], *, pieces: int = 1) -> WorkCost:
    """Return the cost whose terms fit timings best, by the sum of squares of relative errors.

    Args:
        times: seconds by (m, n, rows); every number of rows at the same sizes.
        pieces: that each timing is of, which started together.
    """
    rows = sorted({count for _, _, count in times})
    sizes = sorted({(m, n) for m, n, _ in times})
    return WorkCost(tuple(_terms(count, sizes, [times[m, n, count] for m, n in sizes], pieces) for count in rows))


def _terms(rows: int, sizes: list[tuple[int, int]], seconds: list[float], pieces: int) -> WorkTerms:
    """Return the terms, none negative, that fit best: of all choices of terms that may differ from 0."""
    table = np.array([[1.0, m, n, m * n] for m, n in sizes]) / np.array(seconds)[:, None]  # shares of the seconds
    wanted = np.ones(len(seconds))
    best, least = np.zeros(TERMS), np.inf
    for count in range(1, TERMS + 1):
        for chosen in map(list, combinations(range(TERMS), count)):
            found: npt.NDArray[np.float64] = np.linalg.lstsq(table[:, chosen], wanted, rcond=None)[0]
            error = float(np.sum((table[:, chosen] @ found - wanted) ** 2))
            if (found >= 0.0).all() and error < least:
                best, least = np.zeros(TERMS), error
                best[chosen] = found
    start, first, second, both = (float(value) for value in best)
    return WorkTerms(rows, start, first / pieces, second / pieces, both / pieces)
