"""TensorRT engines with the kernels inside: built ahead of time, run, captured; from assembled code; beyond 48 KB."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import numpy as np

from gpu_checks.launches import Buffers
from gpu_checks.machine import Machine
from gpu_checks.outcome import Finding
from gpu_checks.plugin_engine import SUPPORT, ChangedBundle, Changes, Execution, built, tensorrt
from gpu_checks.verification import MODES, Agreement, agreement, random_call
from specc.bundle.manifest import AcceptanceMode
from specc.graph.verify import VERIFY_OUTPUTS
from specc.plugin.registration import plugin_library

_WIDE_BYTES: Final = 64 * 1024


def check(machine: Machine) -> Iterator[Finding]:
    """Yield for each mode whether the engine's results are the oracle's, then what becomes of changed kernels."""
    trt = tensorrt()
    yield Finding("TensorRT", str(trt.__version__))
    library = plugin_library()
    for mode in MODES:
        library.use(machine.bundle())
        content = built(trt, machine, mode).content
        for captured in (False, True):
            found = executed(trt, machine, mode, content, captured=captured)
            what = f"{mode}{', as a CUDA graph' if captured else ''}: sequences that differ"
            yield Finding(what, found.wrong, f"of {found.rows}", found.wrong == 0, f"{found.near} near")
    for what, changes in (("assembled kernels", Changes(assembled=True)), ("64 KB", Changes(shared_bytes=_WIDE_BYTES))):
        library.use(ChangedBundle(machine, changes))
        try:
            found = executed(trt, machine, MODES[0], built(trt, machine, MODES[0]).content, captured=False)
        except RuntimeError as error:
            yield Finding(what, "refused", note=str(error))
        else:
            yield Finding(f"{what}: sequences that differ", found.wrong, f"of {found.rows}", found.wrong == 0)


def executed(trt: Any, machine: Machine, mode: AcceptanceMode, content: bytes, *, captured: bool) -> Agreement:  # noqa: ANN401 - a vendor module
    """Return how an engine's results of a random call compare with the oracle's."""
    scale = machine.scale
    sizes = replace(scale.call(scale.vocabularies[0]), support=SUPPORT)
    call = random_call(np.random.default_rng(8), mode, "f32", sizes)
    execution = Execution(trt, machine, content)
    with Buffers(machine.driver) as buffers:
        execution.bind(buffers, call)
        execution.run()
        if captured:
            graph = machine.driver.captured(execution.run)
            for name in VERIFY_OUTPUTS:
                buffer = buffers.named[name]
                machine.driver.fill(buffer.address, 0xA5, buffer.nbytes)
            machine.driver.replay(graph)
        return agreement(call, {name: buffers.get(name) for name in VERIFY_OUTPUTS})
