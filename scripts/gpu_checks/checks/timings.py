"""TensorRT's timing cache: kernels of another source must not be taken for those that were timed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from gpu_checks.machine import Machine
from gpu_checks.outcome import Finding
from gpu_checks.plugin_engine import OTHER_HASH, built, library_of_other_source, tensorrt
from specc.plugin.registration import plugin_library


def check(machine: Machine) -> Iterator[Finding]:
    """Yield the cache after a build, after the same one again, and after one of operators with another hash."""
    trt = tensorrt()
    plugin_library().use(machine.bundle())
    first, spent = _timed(trt, machine, b"")
    yield Finding("first build", spent, "s", note=f"{len(first)} bytes of timings")
    again, spent = _timed(trt, machine, first)
    yield Finding("the same again", spent, "s", met=len(again) <= len(first), note=f"{len(again)} bytes of timings")
    library_of_other_source(trt).use(machine.bundle())
    changed, spent = _timed(trt, machine, first, OTHER_HASH)
    note = f"{len(changed)} bytes of timings: {'timed anew' if len(changed) > len(first) else 'nothing was added'}"
    yield Finding("with another hash of the source", spent, "s", note=note)


def _timed(trt: Any, machine: Machine, timings: bytes, source: str | None = None) -> tuple[bytes, float]:  # noqa: ANN401
    start = time.perf_counter()
    made = built(trt, machine, "greedy", timings, source)
    return made.timings, time.perf_counter() - start
