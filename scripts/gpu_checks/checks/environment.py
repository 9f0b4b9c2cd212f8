"""Which card, driver and packages are here."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from typing import Final

from gpu_checks.machine import Machine, package_version
from gpu_checks.outcome import Finding
from specc.plugin.targets import KERNEL_TARGETS

_PACKAGES: Final = (
    *("numpy", "triton", "torch", "tensorrt", "tensorrt_cu13_bindings", "tensorrt_rtx", "cuda-python"),
    *("cuda-bindings", "onnxruntime"),
)


def check(machine: Machine) -> Iterator[Finding]:
    """Yield what is here; the card must be one that the kernels are for."""
    card = machine.card
    free, total = machine.driver.memory()
    sm = card.compute_capability
    yield Finding("card", card.name)
    yield Finding("SM", sm, met=sm in KERNEL_TARGETS, note=f"kernels are for {', '.join(KERNEL_TARGETS)}")
    yield Finding("driver", card.driver, "CUDA")
    yield Finding("memory", total / 1e9, "GB", note=f"{free / 1e9:.1f} GB free")
    yield Finding("multiprocessors", card.multiprocessors)
    yield Finding("bandwidth", card.bandwidth / 1e9, "GB/s", note="by the memory's clock and bus")
    yield Finding("second-level cache", card.l2_bytes / 1e6, "MB")
    yield Finding("shared memory a block may ask for", card.shared_bytes, "bytes")
    yield Finding("python", platform.python_version())
    for name in _PACKAGES:
        yield Finding(name, package_version(name) or "not installed")
