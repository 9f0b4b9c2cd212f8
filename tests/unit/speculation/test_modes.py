from __future__ import annotations

from typing import get_args

from specc.bundle.manifest import AcceptanceMode
from specc.speculation.modes import MODES


def test_there_is_a_row_for_each_mode_and_no_other():
    assert set(MODES) == set(get_args(AcceptanceMode))
    assert all(name == row.name for name, row in MODES.items())


def test_what_the_modes_promise():
    assert [name for name, row in MODES.items() if not row.lossless] == ["typical"]
    assert [name for name, row in MODES.items() if row.fixes_ids] == ["greedy", "coupled"]
    assert [name for name, row in MODES.items() if row.takes_q] == ["rejection", "block"]
    assert all(row.samples for row in MODES.values() if row.takes_q)
