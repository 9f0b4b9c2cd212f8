"""Acceptance that was measured: acceptance.json of `specc bench` in place of a prior."""

from __future__ import annotations

from math import sqrt
from pathlib import Path
from typing import Final

from specc.bundle.record import RecordError, json_from_file, record_from_json
from specc.bundle.statistics import AcceptanceStatistics
from specc.errors import SpeccError
from specc.plan.cost import Acceptance

Z: Final = 1.96
"""Standard deviations of a 95 % interval."""


def acceptance_from_file(path: Path) -> Acceptance:
    """Read the statistics of acceptance.json, or of any JSON object that has them under `statistics`.

    Raises:
        SpeccError: SPC306 the file cannot be read, or holds no acceptance.
    """
    try:
        document = json_from_file(path)
    except SpeccError as error:
        raise _no_acceptance(str(path), error.got) from None
    stated = document.get("statistics", document) if isinstance(document, dict) else document
    try:
        statistics = record_from_json(AcceptanceStatistics, stated)
    except RecordError as error:
        raise _no_acceptance(f"{path} statistics.{error.path}".rstrip("."), error.problem) from None
    if len(statistics.accepted_per_position) != len(statistics.evaluated_per_position):
        raise _no_acceptance(f"{path} statistics", "positions are accepted that were not evaluated, or the reverse")
    if not statistics.evaluated_per_position or not statistics.rounds:
        raise _no_acceptance(f"{path} statistics", f"{statistics.rounds} rounds with a draft: nothing was judged")
    return acceptance_from_statistics(statistics, path.name)


def acceptance_from_statistics(statistics: AcceptanceStatistics, name: str) -> Acceptance:
    """Return acceptance by position with its 95 % interval.

    A step in which the drafter had nothing to propose counts as a rejection at the first position: the model prices
    every step as a round. Positions that were never reached repeat the one before.
    """
    low, mid, high = [], [], []
    pairs = zip(statistics.accepted_per_position, statistics.evaluated_per_position, strict=True)
    for position, (accepted, evaluated) in enumerate(pairs):
        judged = evaluated + (statistics.no_proposal if position == 0 else 0)
        if judged == 0:
            break
        centre, half = _wilson(accepted, judged)
        low.append(max(0.0, centre - half))
        mid.append(accepted / judged)
        high.append(min(1.0, centre + half))
    rounds = statistics.rounds + statistics.no_proposal
    return Acceptance(tuple(low), tuple(mid), tuple(high), f"measured: {name}, {rounds} steps")


def _no_acceptance(place: str, got: str) -> SpeccError:
    return SpeccError(
        "SPC306",
        place,
        got,
        "the prediction takes its acceptance from here",
        "give acceptance.json, which `specc bench BUNDLE --prompts FILE` writes",
    )


def _wilson(accepted: int, judged: int) -> tuple[float, float]:
    """Return centre and half width of Wilson's interval for a share."""
    share, weight = accepted / judged, Z * Z / judged
    centre = (share + weight / 2) / (1 + weight)
    half = Z / (1 + weight) * sqrt(share * (1 - share) / judged + weight / (4 * judged))
    return centre, half
