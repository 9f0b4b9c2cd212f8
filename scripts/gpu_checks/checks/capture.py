"""A verification as a CUDA graph: replayed over other inputs, and timed beside single launches."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import Final

import numpy as np

from gpu_checks.launches import Buffers, Loader
from gpu_checks.machine import Machine
from gpu_checks.outcome import Finding
from gpu_checks.verification import MODES, agreement, launches_of_call, random_call
from specc.bundle.manifest import AcceptanceMode
from specc.graph.verify import VERIFY_OUTPUTS

_REPLAYS: Final = 3


def check(machine: Machine) -> Iterator[Finding]:
    """Yield for each mode whether replays over new inputs agree with the oracle, and both times."""
    loader = Loader(machine.driver, machine.bundle())
    for mode in MODES:
        yield from _captured(machine, loader, mode)


def _captured(machine: Machine, loader: Loader, mode: AcceptanceMode) -> Iterator[Finding]:
    driver, rng = machine.driver, np.random.default_rng(5)
    sizes = machine.scale.call(machine.scale.vocabularies[0])
    wrong, rows = 0, 0
    with Buffers(driver) as buffers:
        launches = launches_of_call(loader, buffers, random_call(rng, mode, "bf16", sizes))

        def step() -> None:
            for launch in launches:
                launch()

        graph = driver.captured(step)
        for _ in range(_REPLAYS):
            call = random_call(rng, mode, "bf16", sizes)
            launches_of_call(loader, buffers, call)  # the new inputs, at the same addresses
            driver.replay(graph)
            found = agreement(call, {name: buffers.get(name) for name in VERIFY_OUTPUTS})
            wrong, rows = wrong + found.wrong, rows + found.rows
        yield Finding(f"{mode}: sequences that differ", wrong, f"of {rows}", met=wrong == 0)
        repeats = range(machine.scale.repeats)
        apart = median(driver.seconds(step) for _ in repeats)
        whole = median(driver.seconds(lambda: driver.replay(graph)) for _ in repeats)
    note = f"{1e6 * apart:.0f} us as {len(launches)} launches from Python"
    yield Finding(f"{mode}: replay", 1e6 * whole, "us", note=note)
