"""What work of two sizes and some rows takes, by terms that were fitted to timings.

The work has two sizes, m and n, and a number of rows r: a product of r rows by a matrix [m, n], or attention of r
queries of m elements over n cached keys. For each r that was timed,

    seconds = start + first m + second n + both m n

`start` is what it takes to begin; `first` what grows with the input alone, as rounding it to 8 bits; `second` what
grows with the output alone, as finishing each sum; `both` reads and multiplies. Between two r the seconds are
interpolated, beyond the last they go on as between the last two.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True)
class WorkTerms:
    """Seconds of work on so many rows; no term is negative."""

    rows: int
    start: float
    first: float
    second: float
    both: float

    def seconds(self, first: float, second: float, pieces: float) -> float:
        """Return the seconds of so many pieces of work of these sizes after one start."""
        return self.start + pieces * (self.first * first + self.second * second + self.both * first * second)


@dataclass(frozen=True)
class WorkCost:
    """What such work costs at any size: terms by ascending rows, at least one."""

    terms: tuple[WorkTerms, ...]

    def seconds(self, first: float, second: float, rows: float, pieces: float = 1.0) -> float:
        """Return the seconds of work of these sizes; fewer rows than were timed cost what the fewest do.

        Args:
            first: m.
            second: n.
            rows: r.
            pieces: of such work, one after the other, that start together.
        """
        if rows <= self.terms[0].rows or len(self.terms) == 1:
            return self.terms[0].seconds(first, second, pieces)
        spans = list(pairwise(self.terms))
        low, high = next((span for span in spans if rows <= span[1].rows), spans[-1])
        begin, end = low.seconds(first, second, pieces), high.seconds(first, second, pieces)
        return max(begin, begin + (end - begin) * (rows - low.rows) / (high.rows - low.rows))

    @property
    def most_rows(self) -> int:
        """The most rows that were timed."""
        return self.terms[-1].rows
