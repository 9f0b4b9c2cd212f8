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
        SpeccError: SPC306 the file holds no acceptance; SPC6nn it cannot be read.
    """
    document = json_from_file(path)
    stated = document.get("statistics", document) if isinstance(document, dict) else document
    fix = "give acceptance.json, which `specc bench BUNDLE --prompts FILE` writes"
    try:
        statistics = record_from_json(AcceptanceStatistics, stated)
    except RecordError as error:
        raise SpeccError(
            "SPC306", f"{path} statistics.{error.path}".rstrip("."), error.problem,
            "the prediction takes its acceptance from here", fix,
        ) from None  # fmt: skip
    if not statistics.evaluated_per_position or not statistics.rounds:
        got = f"{statistics.rounds} rounds with a draft"
        raise SpeccError("SPC306", f"{path} statistics", got, "nothing was judged, so nothing is known", fix)
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


def _wilson(accepted: int, judged: int) -> tuple[float, float]:
    """Return centre and half width of Wilson's interval for a share."""
    share, weight = accepted / judged, Z * Z / judged
    centre = (share + weight / 2) / (1 + weight)
    half = Z / (1 + weight) * sqrt(share * (1 - share) / judged + weight / (4 * judged))
    return centre, half
