"""More than 48 KB of shared memory: what the driver wants to be asked, and that a kernel then runs as before."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from gpu_checks.driver import DriverError
from gpu_checks.launches import Buffers, Loader
from gpu_checks.machine import Machine
from gpu_checks.outcome import Finding
from gpu_checks.verification import agreement, launches_of_call, random_call
from specc.graph.verify import VERIFY_OUTPUTS

_ASKED_BYTES: Final = 64 * 1024


def check(machine: Machine) -> Iterator[Finding]:
    """Yield what a launch with 64 KB gives before and after the kernel was allowed them."""
    driver = machine.driver
    sizes = machine.scale.call(machine.scale.vocabularies[0])
    call = random_call(np.random.default_rng(3), "greedy", "bf16", sizes)
    with Buffers(driver) as buffers:
        launches = launches_of_call(Loader(driver, machine.bundle()), buffers, call)
        wide = [replace(launch, shared_bytes=_ASKED_BYTES) for launch in launches]
        try:
            wide[0]()
            driver.synchronize()
            answer = "runs"
        except DriverError as error:
            answer = error.answer
        yield Finding("64 KB without asking", answer, note="TensorRT would have to ask for itself")
        for launch in wide:
            driver.allow_shared(launch.function, _ASKED_BYTES)
            launch()
        found = agreement(call, {name: buffers.get(name) for name in VERIFY_OUTPUTS})
    yield Finding("64 KB after asking: differ", found.wrong, f"of {found.rows}", met=found.wrong == 0)
