"""Kernels compiled ahead, launched with exactly the parameters that TensorRT passes: no pointer of Triton's own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from gpu_checks.driver import CudaDriver
from gpu_checks.launches import Buffers, Loader, text_image
from gpu_checks.machine import Machine
from gpu_checks.outcome import Finding
from gpu_checks.verification import MODES, agreement, random_call, results_of_call
from specc.plugin.bundle import KernelBundle, KernelSpec
from specc.plugin.ptx import POINTER, SCALAR
from specc.plugin.variants import KernelVariant

_BYTES: Final = {POINTER: 8, SCALAR: 4}


def check(machine: Machine) -> Iterator[Finding]:
    """Yield whether every kernel has the stated parameters, and whether each chain's results are the oracle's."""
    driver, bundle = machine.driver, machine.bundle()
    kernels = bundle.manifest.kernels
    yield Finding(
        "kernels", len(kernels), note=f"source {bundle.manifest.source[:12]}, Triton {bundle.manifest.triton}"
    )
    spilled = [spec.file for spec in kernels if spec.spill_bytes]
    yield Finding("kernels that spill registers", len(spilled), met=not spilled, note=", ".join(spilled))
    expected = {spec.file: tuple(_BYTES[kind] for kind in spec.parameters) for spec in kernels}
    loaded = {spec.file: _parameter_sizes(driver, bundle, spec) for spec in kernels}
    wrong = [f"{name}: {loaded[name]}" for name in expected if loaded[name] not in (None, expected[name])]
    told = "the driver is too old to say" if None in loaded.values() else "by the driver's word"
    yield Finding("kernels with other parameters", len(wrong), met=not wrong, note="; ".join(wrong) or told)
    for mode in MODES:
        rng = np.random.default_rng(1)
        call = random_call(rng, mode, "bf16", machine.scale.call(machine.scale.vocabularies[0]))
        with Buffers(driver) as buffers:
            found = agreement(call, results_of_call(Loader(driver, bundle), buffers, call))
            behind = buffers.overwritten()
        yield Finding(
            f"{mode}: sequences that differ from the oracle",
            found.wrong,
            f"of {found.rows}",
            met=found.wrong == 0 and not behind,
            note=f"written behind {', '.join(behind)}" if behind else f"{found.near} near",
        )


def _parameter_sizes(driver: CudaDriver, bundle: KernelBundle, spec: KernelSpec) -> tuple[int, ...] | None:
    """Return what the driver expects of a kernel."""
    variant = KernelVariant(spec.operator, spec.dtype, spec.aligned)  # type: ignore[arg-type]
    module = driver.module(text_image(bundle.kernel(variant).ptx, bundle.target))
    sizes = driver.parameter_sizes(driver.function(module, spec.entry))
    driver.unload(module)
    return sizes
