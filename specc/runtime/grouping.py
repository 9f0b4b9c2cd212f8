"""Which target calls serve the rows of a step: one padded call, or several where that is cheaper.

A call covers a contiguous range of slots; slots of the range that it does not serve are idle rows and cost as much as
the others. The candidates are a threshold on the row width (narrow rows in one class, wide ones in another) and, in
each class, the best cut of the slots into ranges. So an autoregressive row shares the call of a drafting neighbour or
of a prefill chunk only where the padding costs less than another call.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from math import inf
from typing import Final, TypeAlias

from specc.errors import SpeccBug
from specc.runtime.call_costs import CallCosts, CallShape

MAX_REMEMBERED: Final = 4096


@dataclass(frozen=True)
class Need:
    """What one row needs of its call: where it is, its tokens, its logit rows (drafts + 1)."""

    slot: int
    tokens: int
    logit_rows: int


@dataclass(frozen=True)
class CallPlan:
    """One target call: the range of slots from `first_slot`, its padded shape, and the slots that it serves."""

    first_slot: int
    shape: CallShape
    slots: tuple[int, ...]


Needs: TypeAlias = tuple[Need, ...]
Priced: TypeAlias = tuple[float, tuple[CallPlan, ...]]


class CallPlanner:
    """Plans the calls of a step and remembers the plans of patterns it has seen."""

    def __init__(self, costs: CallCosts) -> None:
        self._costs = costs
        self._known: dict[Needs, Priced] = {}

    def plan(self, needs: Needs) -> tuple[CallPlan, ...]:
        """Return the cheapest calls that serve all rows, given in ascending slots."""
        return self._priced(needs)[1]

    def cost(self, needs: Needs) -> float:
        """Return the cost of these calls."""
        return self._priced(needs)[0]

    def _priced(self, needs: Needs) -> Priced:
        if needs not in self._known:
            if len(self._known) >= MAX_REMEMBERED:
                self._known.clear()
            self._known[needs] = self._cheapest(needs)
        return self._known[needs]

    def _cheapest(self, needs: Needs) -> Priced:
        best = self._cut(needs)
        for width in sorted({need.tokens for need in needs})[:-1]:
            narrow = self._cut(tuple(need for need in needs if need.tokens <= width))
            wide = self._cut(tuple(need for need in needs if need.tokens > width))
            if narrow[0] + wide[0] < best[0]:
                best = (narrow[0] + wide[0], narrow[1] + wide[1])
        if best[0] == inf:
            raise SpeccBug(f"no profile of the engine holds rows of {[(n.tokens, n.logit_rows) for n in needs]}")
        return best

    def _cut(self, needs: Needs) -> Priced:
        """Return the best cut of the rows, in slot order, into ranges of one call each; fewest calls on ties."""
        priced = self._cut_between(_alike(needs))
        return priced if priced[0] < inf else self._cut_between([(need,) for need in needs])

    def _cut_between(self, groups: list[Needs]) -> Priced:
        best: list[Priced] = [(0.0, ())]
        for end in range(1, len(groups) + 1):
            choices = []
            for start in range(end):
                cost, call = self._one_call(tuple(chain.from_iterable(groups[start:end])))
                choices.append((best[start][0] + cost, (*best[start][1], *call)))
            best.append(min(choices, key=lambda choice: (choice[0], len(choice[1]))))
        return best[-1]

    def _one_call(self, needs: Needs) -> Priced:
        first, last = needs[0].slot, needs[-1].slot
        needed = CallShape(last - first + 1, max(n.tokens for n in needs), max(n.logit_rows for n in needs))
        shape = self._costs.admitted(needed)
        if shape is None:
            return inf, ()
        # Rows that only fill a bucket must exist: the range is moved down where it would end behind the last slot.
        first = min(first, max(self._costs.most_rows - shape.batch, 0))
        plan = CallPlan(first, shape, tuple(need.slot for need in needs))
        return self._costs.seconds(shape.batch, shape.tokens), (plan,)


def _alike(needs: Needs) -> list[Needs]:
    """Return the runs of neighbouring slots with the same needs: cutting inside one saves nothing."""
    runs: list[Needs] = []
    for need in needs:
        last = runs[-1][-1] if runs else None
        if last is not None and (last.slot + 1, last.tokens, last.logit_rows) == (
            need.slot,
            need.tokens,
            need.logit_rows,
        ):
            runs[-1] = (*runs[-1], need)
        else:
            runs.append((need,))
    return runs
