"""Time of each kernel, from memory, beside what the memory's bandwidth allows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import median
from typing import Final

import numpy as np

from gpu_checks.launches import Buffers, Loader
from gpu_checks.machine import Machine
from gpu_checks.outcome import Finding
from gpu_checks.verification import MODES, launches_of_call, random_call

# A share above this is no speed but a wrong measurement: the clock, or data that was not in memory.
MOST_SHARE: Final = 1.05
_HEAD_HIDDEN: Final = 8192
_MARGIN_S: Final = 5.0


def check(machine: Machine) -> Iterator[Finding]:
    """Yield what a copy reaches, then each kernel, then the chain beside a reading of the head."""
    scale, bandwidth = machine.scale, machine.card.bandwidth
    loader = Loader(machine.driver, machine.bundle())
    with Buffers(machine.driver) as flushed:
        buffer = flushed.make("flush", "i64", (scale.flush_bytes // 8,))
        half = buffer.nbytes // 2
        spent = median(
            machine.driver.seconds(lambda: machine.driver.copy(buffer.address + half, buffer.address, half))
            for _ in range(scale.repeats)
        )
        yield _share("copy in memory", spent, 2 * half, bandwidth)
        flush = flush_of(machine, flushed)
        for batch in scale.batches:
            for mode in MODES:
                if machine.left() < _MARGIN_S:
                    yield Finding(f"B {batch} {mode}", "left out", note="no time was left")
                    continue
                sizes = scale.call(scale.vocabulary, batch)
                call = random_call(np.random.default_rng(batch), mode, "bf16", sizes)
                with Buffers(machine.driver) as buffers:
                    launches = launches_of_call(loader, buffers, call)
                    for launch in launches:
                        launch()
                    each = [timed(machine, launch, flush) for launch in launches]
                for launch, seconds in zip(launches, each, strict=True):
                    yield _share(f"B {batch} {launch.operator}", seconds, launch.nbytes, bandwidth)
                if bandwidth:
                    head = scale.vocabulary * _HEAD_HIDDEN * 2 / bandwidth
                    note = f"{sum(each) / head:.1%} of reading a head of hidden size {_HEAD_HIDDEN}"
                    yield Finding(f"B {batch} {mode} in all", 1e6 * sum(each), "us", note=note)


def flush_of(machine: Machine, buffers: Buffers) -> Callable[[], None]:
    """Return what empties the second-level cache, and keeps the card busy while the host puts more on the stream."""
    buffer = buffers.named["flush"]
    return lambda: machine.driver.fill(buffer.address, 0, buffer.nbytes)


def timed(machine: Machine, work: Callable[[], None], flush: Callable[[], None]) -> float:
    """Return the median seconds of work on the card, each time from memory."""
    return median(machine.driver.seconds(work, flush) for _ in range(machine.scale.repeats))


def _share(what: str, seconds: float, nbytes: int, bandwidth: float) -> Finding:
    if not bandwidth:
        return Finding(what, 1e6 * seconds, "us", note=f"{nbytes / seconds / 1e9:.0f} GB/s")
    share = nbytes / seconds / bandwidth
    note = f"{share:.0%} of {bandwidth / 1e9:.0f} GB/s, {nbytes / 1e6:.2f} MB"
    return Finding(what, 1e6 * seconds, "us", met=None if share <= MOST_SHARE else False, note=note)
