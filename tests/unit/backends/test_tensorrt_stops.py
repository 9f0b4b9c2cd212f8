"""Builds that end early: refused, interrupted, too slow. Nothing of an engine is left, nothing is raised through it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from specc.backends.tensorrt_monitor import BuildWatch, interrupts_noted
from specc.errors import SpeccError
from specc.pipeline import BuildRequest, build
from specc.progress import silent
from tests.tensorrt_builder import STEPS, Machine
from tests.tensorrt_case import built, objects


@pytest.fixture(autouse=True)
def ctrl_c_interrupts() -> Iterator[None]:
    """Give Ctrl-C its usual meaning: a shell starts what runs in its background with the signal ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def failed(request: BuildRequest, tmp_path: Path, *overrides: str) -> BaseException:
    """Build, and check that a build that fails leaves graphs and weights, and nothing of an engine or its timings."""
    with pytest.raises(BaseException) as caught:  # noqa: PT011 - the caller looks at it
        built(request, *overrides)
    assert objects(tmp_path / "store") == ["graphs of tiny", "weights of tiny"]
    for name in ("staging", "labels"):
        assert not list((tmp_path / "store" / name).iterdir())
    assert not (tmp_path / "out").exists()
    return caught.value


def test_a_builder_that_refuses_is_quoted_and_leaves_nothing(
    trt_request: BuildRequest, machine: Machine, tmp_path: Path
) -> None:
    machine.refuses, machine.messages = True, ("Error Code 10: Internal Error (no tactic)",)
    error = failed(trt_request, tmp_path)
    assert isinstance(error, SpeccError)
    assert error.code == "SPC523"
    assert (
        "of tensorrt_bindings 11.4.0.106 made no engine; it said: Error Code 10: Internal Error (no tactic)"
        in error.got
    )


def test_ctrl_c_ends_a_build_at_its_next_step(trt_request: BuildRequest, machine: Machine, tmp_path: Path) -> None:
    """A real signal, while the main thread is in the builder; nothing is raised inside it, and Ctrl-C works after."""
    steps = []

    def interrupted(step: int) -> None:
        steps.append(step)
        if step == 1:
            os.kill(os.getpid(), signal.SIGINT)

    machine.on_step = interrupted
    assert isinstance(failed(trt_request, tmp_path), KeyboardInterrupt)
    assert steps == [0, 1]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.set_wakeup_fd(-1) == -1


def test_a_build_on_another_thread_sees_the_signal_of_the_main_one() -> None:
    """The monitor may be called on any thread; Python's own handler runs on the main one alone."""
    watch = BuildWatch("build", silent, None)
    answers = []
    with interrupts_noted(watch):
        assert watch.step("outer", 1)
        signal.raise_signal(signal.SIGINT)
        thread = threading.Thread(target=lambda: answers.append(watch.step("outer", 2)))
        thread.start()
        thread.join()
    assert answers == [False]
    assert isinstance(watch.stopped, KeyboardInterrupt)


def test_ctrl_c_that_does_something_else_is_left_alone() -> None:
    seen: list[int] = []
    watch, before = (
        BuildWatch("build", silent, None),
        signal.signal(signal.SIGINT, lambda number, _: seen.append(number)),
    )
    try:
        with interrupts_noted(watch):
            signal.raise_signal(signal.SIGINT)
            assert watch.step("outer", 1)
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == [signal.SIGINT]


def test_a_progress_that_fails_ends_the_build(trt_request: BuildRequest, machine: Machine, tmp_path: Path) -> None:
    def broken(what: str, done: int, total: int) -> None:
        if what == "build target.engine" and done == 2:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        build(trt_request, broken, lambda _: None)
    assert machine.named("told") == []


def test_progress_of_the_outermost_phase_is_shown(trt_request: BuildRequest, machine: Machine) -> None:
    events: list[tuple[str, int, int]] = []
    build(trt_request, lambda *event: events.append(event), lambda _: None)
    shown = [event for event in events if event[0] == "build target.engine"]
    assert [done for _, done, _ in shown] == [*range(STEPS + 1), STEPS]
    assert {total for _, _, total in shown} == {STEPS}


def test_the_time_limit_is_not_part_of_an_engine(trt_request: BuildRequest, machine: Machine) -> None:
    assert built(trt_request) == built(trt_request, "backend.builder_minutes=10")
    assert machine.named("build") == ["target"]
