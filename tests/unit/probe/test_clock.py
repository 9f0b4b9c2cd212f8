"""The clock: the shortest call of a warm one, the median of calls in turns."""

from __future__ import annotations

from functools import partial

import pytest

from specc.probe.clock import best_seconds, seconds_in_turns


def test_the_shortest_call_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 1.0, 4.0, 5.0, 6.0, 7.0, 7.5, 8.5])
    monkeypatch.setattr("time.perf_counter", lambda: next(clock))
    assert best_seconds(lambda: None, 1.0) == 1.0


def test_calls_of_one_group_never_follow_each_other() -> None:
    made: list[str] = []
    groups = [{f"{group}{index}": partial(made.append, group) for index in range(3)} for group in "abcd"]
    seconds_in_turns(groups, 0.0)
    timed = made[12:]  # after the warm-up
    assert len(timed) == 3 * 12
    assert timed == list("abcd") * 9


def test_every_call_has_the_median_of_its_own_times(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    taken = {"a": iter([9.0, 1.0, 2.0, 30.0]), "b": iter([9.0, 4.0, 4.0, 4.0])}

    def work(name: str) -> None:
        now[0] += next(taken[name])

    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    assert seconds_in_turns([{name: partial(work, name)} for name in "ab"], 0.0) == {"a": 2.0, "b": 4.0}
