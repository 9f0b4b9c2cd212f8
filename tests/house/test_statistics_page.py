"""The example of docs/statistics.md follows from its five calls, and its ratios are those of the code."""

from __future__ import annotations

import json
import re

from specc.bundle.record import record_from_json
from specc.bundle.statistics import AcceptanceStatistics
from tests.house.tree import ROOT

PAGE = (ROOT / "docs" / "statistics.md").read_text()
CALLS = (
    (3, 3),
    (3, 1),
    (0, 0),
    (2, 2),
    (3, 0),
)  # drafts sent, drafts accepted; a draft is evaluated if all before were


def test_the_example_follows_from_its_calls() -> None:
    block = re.search(r"```json\n(.*?)```", PAGE, re.DOTALL)
    assert block is not None
    stated = record_from_json(AcceptanceStatistics, json.loads(block[1]))
    rounds = [(sent, kept) for sent, kept in CALLS if sent]
    assert stated == AcceptanceStatistics(
        rounds=len(rounds),
        ar_steps=len(CALLS) - len(rounds),
        no_proposal=1,
        proposed=sum(sent for sent, _ in rounds),
        accepted=sum(kept for _, kept in rounds),
        proposed_per_position=tuple(sum(sent > k for sent, _ in rounds) for k in range(3)),
        evaluated_per_position=tuple(sum(sent > k and kept >= k for sent, kept in rounds) for k in range(3)),
        accepted_per_position=tuple(sum(kept > k for _, kept in rounds) for k in range(3)),
    )
    assert f"MAL = (6 + 4) / 4 = {stated.mal}" in PAGE
    assert stated.conditional_acceptance == (3 / 4, 2 / 3, 1.0)
    assert "Conditional acceptance = 3/4, 2/3, 1/1" in PAGE
