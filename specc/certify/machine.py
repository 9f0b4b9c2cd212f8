"""The name of the machine's processor, for the record."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Final

CPU_INFO: Final = Path("/proc/cpuinfo")


def processor_name(cpu_info: Path = CPU_INFO) -> str:
    """Return what the processor calls itself, else what Python knows of it, else the architecture."""
    if cpu_info.is_file():
        for line in cpu_info.read_text(encoding="utf-8", errors="replace").splitlines():
            field, _, value = line.partition(":")
            if field.strip() == "model name" and value.strip():
                return value.strip()
    return platform.processor() or platform.machine() or "unknown"
