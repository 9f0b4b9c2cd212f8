"""Counts acceptance as `specc.bundle.statistics` defines it."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import zip_longest

from specc.bundle.statistics import AcceptanceStatistics


class AcceptanceCounter:
    """Counts the generating calls of one request."""

    def __init__(self) -> None:
        self._ar_steps = 0
        self._no_proposal = 0
        self._rounds: list[tuple[int, int]] = []

    def count_round(self, proposed: int, accepted: int) -> None:
        """Count a verify call with `proposed` >= 1 drafts, of which the first `accepted` were kept."""
        self._rounds.append((proposed, accepted))

    def count_ar_step(self, *, asked: bool) -> None:
        """Count a call that generated without a draft; `asked` says that the drafter had nothing to propose."""
        self._ar_steps += 1
        self._no_proposal += asked

    def statistics(self) -> AcceptanceStatistics:
        """Return the counts so far."""
        positions = range(max((proposed for proposed, _ in self._rounds), default=0))
        return AcceptanceStatistics(
            rounds=len(self._rounds),
            ar_steps=self._ar_steps,
            no_proposal=self._no_proposal,
            proposed=sum(proposed for proposed, _ in self._rounds),
            accepted=sum(accepted for _, accepted in self._rounds),
            proposed_per_position=tuple(sum(proposed > k for proposed, _ in self._rounds) for k in positions),
            evaluated_per_position=tuple(
                sum(proposed > k and accepted >= k for proposed, accepted in self._rounds) for k in positions
            ),
            accepted_per_position=tuple(sum(accepted > k for _, accepted in self._rounds) for k in positions),
        )


def summed_statistics(parts: Iterable[AcceptanceStatistics]) -> AcceptanceStatistics:
    """Return the sum of the counts of several requests."""
    all_parts = list(parts)
    return AcceptanceStatistics(
        rounds=sum(part.rounds for part in all_parts),
        ar_steps=sum(part.ar_steps for part in all_parts),
        no_proposal=sum(part.no_proposal for part in all_parts),
        proposed=sum(part.proposed for part in all_parts),
        accepted=sum(part.accepted for part in all_parts),
        proposed_per_position=_summed([part.proposed_per_position for part in all_parts]),
        evaluated_per_position=_summed([part.evaluated_per_position for part in all_parts]),
        accepted_per_position=_summed([part.accepted_per_position for part in all_parts]),
    )


def _summed(rows: list[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(sum(column) for column in zip_longest(*rows, fillvalue=0))
