"""What a running builder is told: where to report its progress, and when to stop."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

from specc.errors import SpeccError
from specc.progress import Progress

# The module tensorrt_rtx or tensorrt, and objects of its classes; both ship without type hints.
TensorRt: TypeAlias = Any
Vendor: TypeAlias = Any


class BuildWatch:
    """Follows one build.

    Args:
        what: is built, as the progress calls it.
        progress: told the steps of the outermost phase.
        seconds: the build may take, from now on; None sets no limit.

    Attributes:
        stopped: why the build is to end; None while it may go on.
        interrupts: where the system writes the numbers of signals, see `interrupts_noted`.
    """

    def __init__(self, what: str, progress: Progress, seconds: float | None) -> None:
        self._what, self._progress, self._seconds = what, progress, seconds
        self._deadline = None if seconds is None else time.monotonic() + seconds
        self._outermost: tuple[str, int] | None = None
        self.stopped: BaseException | None = None
        self.interrupts: int | None = None

    def begin(self, phase: str, parent: str | None, steps: int) -> None:
        """Take note of a phase that begins."""
        if parent is None:
            self._outermost = phase, steps
            self._report(phase, 0)

    def end(self, phase: str) -> None:
        """Take note of a phase that ends."""
        if self._outermost is not None:
            self._report(phase, self._outermost[1])

    def step(self, phase: str, done: int) -> bool:
        """Take note of steps done and return whether the build goes on."""
        self._report(phase, done)
        if self._deadline is not None and self._seconds is not None and time.monotonic() > self._deadline:
            self.stopped = self.stopped or _too_slow(self._what, self._seconds)
        return self.goes_on()

    def goes_on(self) -> bool:
        """Return whether nothing has stopped the build, an interrupt that just came included."""
        if self.interrupts is not None and _has_arrived(self.interrupts):
            self.stopped = KeyboardInterrupt()
        return self.stopped is None

    def _report(self, phase: str, done: int) -> None:
        if self._outermost is None or phase != self._outermost[0]:
            return
        try:
            self._progress(self._what, done, self._outermost[1])
        except BaseException as error:  # noqa: BLE001 - raised again when the builder has returned
            self.stopped = self.stopped or error


def build_monitor(trt: TensorRt, watch: BuildWatch) -> Vendor:
    """Return a monitor of the library that tells a watch of its steps, and ends the build when it is to stop.

    Nothing may be raised through the builder, and these callbacks are the only Python that runs during a build, on
    whatever thread it likes. So whatever goes wrong here is kept in the watch, and the builder is asked to end at the
    step that it is at; one step can take long.
    """

    class Monitor(trt.IProgressMonitor):  # type: ignore[misc]
        def __init__(self) -> None:
            trt.IProgressMonitor.__init__(self)

        def phase_start(self, phase_name: str, parent_phase: str | None, num_steps: int) -> None:
            watch.begin(phase_name, parent_phase, num_steps)

        def phase_finish(self, phase_name: str) -> None:
            watch.end(phase_name)

        def step_complete(self, phase_name: str, step: int) -> bool:
            return watch.step(phase_name, step + 1)

    return Monitor()


@contextmanager
def interrupts_noted(watch: BuildWatch) -> Iterator[None]:
    """While the block runs, Ctrl-C ends the build through its watch instead of being raised somewhere inside it.

    Python handles signals on its main thread alone, which is busy in the builder; the byte that the system writes for
    each of them can be seen by every thread. Where Ctrl-C does something else already, or the build is not on the main
    thread, nothing is changed.
    """
    raises = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if threading.current_thread() is not threading.main_thread() or not raises:
        yield
        return
    arrived, written = os.pipe()
    for end in (arrived, written):
        os.set_blocking(end, False)
    signal.signal(signal.SIGINT, lambda *_: None)
    before = signal.set_wakeup_fd(written, warn_on_full_buffer=False)
    watch.interrupts = arrived
    try:
        yield
        watch.goes_on()
    finally:
        watch.interrupts = None
        signal.set_wakeup_fd(before)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.close(arrived)
        os.close(written)


def _has_arrived(end: int) -> bool:
    try:
        return signal.SIGINT in os.read(end, 64)
    except BlockingIOError:
        return False


def _too_slow(what: str, seconds: float) -> SpeccError:
    return SpeccError(
        "SPC506",
        "backend.builder_minutes",
        f"{what} was not done after {seconds / 60:g} minutes",
        "the recipe gives the builder no more time; nothing of this engine was kept",
        "raise or remove backend.builder_minutes; a smaller prefill_chunk or gamma is built faster",
    )
