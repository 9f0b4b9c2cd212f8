"""GPUs that a recipe can name: facts of the makers' data sheets, in decimal units as printed there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

GB: Final = 10**9


@dataclass(frozen=True)
class GpuRow:
    """One GPU, or the CPU.

    Attributes:
        name: key of the row.
        title: the maker's name.
        compute_capability: SM as `8.9`; None for the CPU.
        memory_bytes: nominal memory (a card reports slightly more than these decimal gigabytes); None for the CPU,
            whose memory is the machine's.
        bandwidth_bytes: nominal memory bandwidth in bytes per second; None for the CPU.
        source: where the facts were read.
    """

    name: str
    title: str
    compute_capability: str | None
    memory_bytes: int | None
    bandwidth_bytes: int | None
    source: str


def _row(name: str, title: str, compute_capability: str, sizes_gb: tuple[int, float], source: str) -> GpuRow:
    memory, bandwidth = sizes_gb
    return GpuRow(name, title, compute_capability, memory * GB, round(bandwidth * GB), source)


GPUS: Final[dict[str, GpuRow]] = {
    "cpu": GpuRow("cpu", "the CPU of the machine", None, None, None, "no constant facts"),
    "t4": _row("t4", "NVIDIA T4", "7.5", (16, 320), "T4 data sheet"),
    "a100-sxm-80gb": _row("a100-sxm-80gb", "NVIDIA A100 80GB SXM", "8.0", (80, 2039), "A100 data sheet"),
    "a10": _row("a10", "NVIDIA A10", "8.6", (24, 600), "A10 data sheet"),
    "rtx-3090": _row("rtx-3090", "NVIDIA GeForce RTX 3090", "8.6", (24, 936), "GA102 architecture paper"),
    "jetson-agx-orin-64gb": _row(
        "jetson-agx-orin-64gb", "NVIDIA Jetson AGX Orin 64GB", "8.7", (64, 204.8), "Jetson AGX Orin data sheet"
    ),
    "l4": _row("l4", "NVIDIA L4", "8.9", (24, 300), "L4 data sheet"),
    "l40s": _row("l40s", "NVIDIA L40S", "8.9", (48, 864), "L40S data sheet"),
    "rtx-4090": _row("rtx-4090", "NVIDIA GeForce RTX 4090", "8.9", (24, 1008), "AD102 architecture paper"),
    "rtx-6000-ada": _row("rtx-6000-ada", "NVIDIA RTX 6000 Ada Generation", "8.9", (48, 960), "RTX 6000 Ada data sheet"),
    "h100-sxm-80gb": _row("h100-sxm-80gb", "NVIDIA H100 80GB SXM", "9.0", (80, 3350), "H100 data sheet"),
    "h200": _row("h200", "NVIDIA H200 SXM", "9.0", (141, 4800), "H200 data sheet"),
    "b200": _row("b200", "NVIDIA B200 (HGX, per GPU)", "10.0", (180, 8000), "DGX B200 data sheet, an eighth"),
    "rtx-5090": _row("rtx-5090", "NVIDIA GeForce RTX 5090", "12.0", (32, 1792), "RTX Blackwell architecture paper"),
    "gb10": _row(
        "gb10", "NVIDIA GB10 (DGX Spark), memory shared with the CPU", "12.1", (128, 273), "DGX Spark data sheet"
    ),
}

COMPUTE_CAPABILITIES: Final[tuple[str, ...]] = (
    "7.5", "8.0", "8.6", "8.7", "8.9", "9.0", "10.0", "10.3", "11.0", "12.0", "12.1",
)  # fmt: skip
