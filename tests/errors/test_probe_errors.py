"""A probe beside other work: its readings are refused, and what was remembered before stays."""

from __future__ import annotations

import pytest

from specc.cli.main import status_from_arguments
from specc.errors import ExitStatus
from specc.probe import measure, others
from specc.probe.measure import probe_from_machine
from specc.probe.result import remembered_machine
from tests.unit.probe.test_measure import SMALL


@pytest.mark.parametrize("shares", [(0.02, 0.4), (0.4, 0.02)])
def test_spc912_what_was_measured_beside_other_work_is_not_remembered(shares, tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.setenv("SPECC_CACHE", str(tmp_path))
    told = iter((*shares, *shares))
    monkeypatch.setattr(measure, "probe_from_machine", lambda: probe_from_machine(SMALL))
    monkeypatch.setattr(others, "busy_share", lambda: next(told))
    assert status_from_arguments(["probe"]) == ExitStatus.ENVIRONMENT
    shown = " ".join(capsys.readouterr().err.split())
    assert shown.startswith("SPC912 specc probe other work took 40% of")
    assert remembered_machine() is None
    assert status_from_arguments(["probe", "--busy"]) == 0
    assert "other work 40% of the processors" in " ".join(capsys.readouterr().out.split())
    assert remembered_machine() is not None
