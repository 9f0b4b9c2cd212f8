"""Device memory over many changes of shapes in one context with the kernels inside, and over one shape."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from gpu_checks.launches import Buffers
from gpu_checks.machine import Machine
from gpu_checks.outcome import Finding
from gpu_checks.plugin_engine import MOST_ROWS, Execution, built, tensorrt
from gpu_checks.verification import random_call
from specc.plugin.registration import plugin_library

_WARM_UP: Final = 2 * MOST_ROWS
# What libraries may take meanwhile; a module at each of 10 000 changes would be hundreds of megabytes.
_MOST_LOST: Final = 64 << 20


def check(machine: Machine) -> Iterator[Finding]:
    """Yield what is lost by executions of one shape, then by as many of changing shapes."""
    trt = tensorrt()
    plugin_library().use(machine.bundle())
    content = built(trt, machine, "greedy").content
    sizes = machine.scale.call(machine.scale.vocabularies[0], MOST_ROWS)
    call = random_call(np.random.default_rng(9), "greedy", "f32", sizes)
    for changing in (False, True):
        execution = Execution(trt, machine, content)
        with Buffers(machine.driver) as buffers:
            inputs = execution.bind(buffers, call)
            done, before = 0, 0
            while done < _WARM_UP + machine.scale.shape_changes and machine.left() > machine.seconds * 0.1:
                rows = 1 + done % MOST_ROWS if changing else MOST_ROWS
                execution.reshape({name: (rows, *shape[1:]) for name, shape in inputs.items()})
                execution.run()
                done += 1
                if done == _WARM_UP:
                    machine.driver.synchronize()
                    before = machine.driver.memory()[0]
            machine.driver.synchronize()
            lost = before - machine.driver.memory()[0]
        what = f"{done - _WARM_UP} executions of {'changing shapes' if changing else 'one shape'}: memory lost"
        yield Finding(what, lost / 1e6, "MB", met=lost <= _MOST_LOST)
