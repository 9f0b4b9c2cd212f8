"""Assembled kernels in place of PTX, and the code of SM 8.0 on a newer card."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gpu_checks.driver import DriverError
from gpu_checks.launches import Buffers, ImageFromText, Loader, text_image
from gpu_checks.machine import PORTABLE, Machine
from gpu_checks.outcome import Finding
from gpu_checks.verification import MODES, Agreement, agreement, random_call, results_of_call
from specc.bundle.manifest import AcceptanceMode
from specc.plugin.bundle import KernelBundle


def check(machine: Machine) -> Iterator[Finding]:
    """Yield the results of each chain, assembled for this card, and as text and assembled for SM 8.0."""
    own = machine.bundle()
    for mode in MODES:
        yield _agrees(
            f"assembled for SM {own.target.compute_capability}, {mode}", _run(machine, own, mode, assembled=True)
        )
    if own.target.compute_capability == PORTABLE:
        return
    portable = machine.bundle(PORTABLE)
    for mode in MODES:
        yield _agrees(f"text for SM {PORTABLE}, {mode}", _run(machine, portable, mode, assembled=False))
    try:
        ran = _run(machine, portable, MODES[0], assembled=True)
    except DriverError as error:
        # Machine code runs within its generation alone.
        newer = own.target.number // 10 != portable.target.number // 10
        yield Finding(f"assembled for SM {PORTABLE}", error.answer, met=newer, note="refused by the driver")
    else:
        yield _agrees(f"assembled for SM {PORTABLE}, {MODES[0]}", ran)


def _run(machine: Machine, bundle: KernelBundle, mode: AcceptanceMode, *, assembled: bool) -> Agreement:
    image: ImageFromText = machine.assemble if assembled else text_image
    sizes = machine.scale.call(machine.scale.vocabularies[0])
    call = random_call(np.random.default_rng(2), mode, "bf16", sizes)
    with Buffers(machine.driver) as buffers:
        return agreement(call, results_of_call(Loader(machine.driver, bundle, image), buffers, call))


def _agrees(what: str, found: Agreement) -> Finding:
    return Finding(f"{what}: differ", found.wrong, f"of {found.rows}", met=found.wrong == 0, note=f"{found.near} near")
