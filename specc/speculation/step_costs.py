"""T(B,S), the seconds of one target call, from the measured costs of a certificate.

Inside the measured range: piecewise linear in S for each measured B, then in B. A call with more rows or more tokens
cannot cost less, so measurements that say so are noise and are averaged away (isotonic regression, along S and then
along B; the second keeps the first, because isotonic regression preserves order). Below the smallest measured B or S
the cost is that of the smallest. Beyond the largest it grows in proportion, an upper bound while fixed costs exist.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from specc.bundle.certificate import StepCost


@dataclass(frozen=True)
class StepCostTable:
    """Step costs on a whole grid, non-decreasing in both directions; make one with `table_from_step_costs`.

    Attributes:
        batches: ascending measured B.
        tokens: ascending measured S.
        grid: [len(batches)][len(tokens)] seconds.
    """

    batches: tuple[int, ...]
    tokens: tuple[int, ...]
    grid: tuple[tuple[float, ...], ...]

    def seconds(self, batch: int, tokens: int) -> float:
        """Return the predicted seconds of a target call with `batch` rows of `tokens` tokens each, both at least 1."""
        by_batch = [_interpolated(self.tokens, row, tokens) for row in self.grid]
        return _interpolated(self.batches, by_batch, batch)


def table_from_step_costs(costs: Iterable[StepCost]) -> StepCostTable | None:
    """Return the table of measured costs, or None when there are none (an engine that was never run).

    Of several measurements of one (B,S) the fastest counts. Batches need not share their S.
    """
    measured: dict[int, dict[int, float]] = {}
    for cost in costs:
        row = measured.setdefault(cost.batch, {})
        row[cost.tokens] = min(cost.seconds, row.get(cost.tokens, cost.seconds))
    if not measured:
        return None
    batches = tuple(sorted(measured))
    tokens = tuple(sorted({s for row in measured.values() for s in row}))
    rows = []
    for batch in batches:
        own_tokens = sorted(measured[batch])
        own_seconds = isotonic([measured[batch][s] for s in own_tokens])
        rows.append([_interpolated(own_tokens, own_seconds, s) for s in tokens])
    columns = [isotonic(column) for column in zip(*rows, strict=True)]
    return StepCostTable(batches, tokens, tuple(zip(*columns, strict=True)))


def isotonic(values: Sequence[float]) -> list[float]:
    """Return the non-decreasing sequence nearest to `values` in least squares.

    Min-max formula: element k is the largest over i <= k of the smallest over j >= k of the mean of values i to j.
    """
    n = len(values)
    return [max(min(sum(values[i : j + 1]) / (j + 1 - i) for j in range(k, n)) for i in range(k + 1)) for k in range(n)]


def _interpolated(knots: Sequence[int], values: Sequence[float], at: int) -> float:
    if at <= knots[0]:
        return values[0]
    if at >= knots[-1]:
        return values[-1] * at / knots[-1]
    right = bisect_right(knots, at)
    share = (at - knots[right - 1]) / (knots[right] - knots[right - 1])
    return values[right - 1] + share * (values[right] - values[right - 1])
