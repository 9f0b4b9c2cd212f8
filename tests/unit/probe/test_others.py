"""The share of the processors that other work takes, from counts in the kernel's form."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from specc.probe.others import busy_share

IDLE = (
    "cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 {busy} 0 0 {idle} {wait} 0 0 {steal} 7 7\n"
    "cpu1 {busy} 0 0 {idle} 0 0 0 0 0 0\nintr 5\n"
)


@pytest.mark.parametrize(
    ("counts", "processors", "share"),
    [
        ({"busy": 10, "idle": 90, "wait": 0, "steal": 0}, {0, 1}, 0.1),
        ({"busy": 0, "idle": 60, "wait": 30, "steal": 10}, {0}, 0.1),  # another guest took its time: as good as busy
        ({"busy": 25, "idle": 75, "wait": 0, "steal": 0}, {1}, 0.25),
        ({"busy": 0, "idle": 0, "wait": 0, "steal": 0}, {0, 1}, None),
    ],
)
def test_what_is_neither_idle_nor_waiting_is_busy(tmp_path: Path, monkeypatch, counts, processors, share) -> None:
    stat = tmp_path / "stat"
    stat.write_text(IDLE.format(**dict.fromkeys(counts, 0)))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: processors)
    monkeypatch.setattr(time, "sleep", lambda _: stat.write_text(IDLE.format(**counts)))
    assert busy_share(0.1, stat) == (None if share is None else pytest.approx(share))


def test_a_system_that_does_not_count_tells_nothing(tmp_path: Path) -> None:
    assert busy_share(0.0, tmp_path / "absent") is None


def test_this_system_s_counts_are_read() -> None:
    told = busy_share(0.05)
    assert told is None or 0 <= told <= 1
