"""The name of the machine's processor: for the record, and to tell whether a record is of this machine."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Final

from specc.bundle.certificate import Certificate

CPU_INFO: Final = Path("/proc/cpuinfo")


def processor_name(cpu_info: Path = CPU_INFO) -> str:
    """Return what the processor calls itself, else what Python knows of it, else the architecture."""
    if cpu_info.is_file():
        for line in cpu_info.read_text(encoding="utf-8", errors="replace").splitlines():
            field, _, value = line.partition(":")
            if field.strip() == "model name" and value.strip():
                return value.strip()
    return platform.processor() or platform.machine() or "unknown"


def costs_from_elsewhere(certificate: Certificate | None, backend: str, bundle: Path) -> str | None:
    """Return a sentence where a bundle's step costs are those of another processor than the one that runs it.

    They steer the runtime all the same. It takes them as shares of a plain step, and those of another processor are
    nearer to the truth than the nominal ones that stand in for missing costs.

    Args:
        certificate: that counts for the bundle; None without one.
        backend: of the bundle; what runs on a GPU is not a matter of the processor.
        bundle: its folder.
    """
    name = processor_name()
    if certificate is None or backend != "onnxruntime" or not certificate.step_costs or certificate.machine == name:
        return None
    return (
        f"the step costs that decide how much is drafted were measured on {certificate.machine}, and this is {name}; "
        f"`specc verify {bundle}` measures them here"
    )
