"""How many drafts a row the whole batch is best served with in this step.

A row chooses its gamma as if all rows were like it. In a mixed batch that overrates drafts: every row waits for a call
that a few of them made longer. So drafts are cut to the number that gives the most tokens a second over all rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from specc.runtime.grouping import CallPlanner, Need
from specc.speculation.expected import expected_tokens

# More drafts must promise this much more than fewer.
GAIN: Final = 1.01


@dataclass(frozen=True)
class Candidate:
    """A row whose drafts may be cut: what it needs with all of them, and their conditional acceptance."""

    need: Need
    acceptance: tuple[float, ...]


def draft_cap(candidates: list[Candidate], others: list[Need], planner: CallPlanner) -> int:
    """Return the most drafts a candidate row should keep: 0 up to the longest proposal.

    Args:
        candidates: rows with drafts, at least one.
        others: the step's other rows, each taken to give one token.
        planner: prices the calls.
    """
    best_cap, best_rate = 0, 0.0
    for cap in range(max(len(candidate.acceptance) for candidate in candidates) + 1):
        needs = [*others, *(_capped(candidate, cap) for candidate in candidates)]
        tokens = len(others) + sum(expected_tokens(candidate.acceptance[:cap]) for candidate in candidates)
        rate = tokens / planner.cost(tuple(sorted(needs, key=lambda need: need.slot)))
        if rate > best_rate * GAIN:
            best_cap, best_rate = cap, rate
    return best_cap


def _capped(candidate: Candidate, cap: int) -> Need:
    kept = min(cap, len(candidate.acceptance))
    return replace(candidate.need, tokens=kept + 1, logit_rows=kept + 1)
