"""The two libraries that build TensorRT engines. One module serves both: what differs is here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal


@dataclass(frozen=True)
class TensorRtLibraryRow:
    """One of the two libraries.

    Attributes:
        format: what its engines are called in a manifest.
        module: the Python module.
        package: the distribution that has the module.
        extra: of specc, that brings it.
        ahead: engines are for GPUs that are named, and are built on any machine. Otherwise they are for the GPU at
            hand, on which the builder times its kernels, and those timings are kept for later builds.
        memory_pools: names of the builder's pools that `backend.builder_memory_gb` limits.
        page: of docs/, with the version that was tested.
    """

    format: Literal["tensorrt-rtx", "tensorrt"]
    module: str
    package: str
    extra: str
    ahead: bool
    memory_pools: tuple[str, ...]
    page: str


TENSORRT_RTX: Final = TensorRtLibraryRow(
    format="tensorrt-rtx",
    module="tensorrt_rtx",
    package="tensorrt_rtx",
    extra="rtx",
    ahead=True,
    memory_pools=("WORKSPACE",),
    page="docs/tensorrt-rtx.md",
)
TENSORRT: Final = TensorRtLibraryRow(
    format="tensorrt",
    module="tensorrt",
    package="tensorrt",
    extra="tensorrt",
    ahead=False,
    memory_pools=("WORKSPACE", "TACTIC_DRAM"),
    page="docs/tensorrt.md",
)
