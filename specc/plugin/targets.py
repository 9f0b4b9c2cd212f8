"""The GPUs that kernels are compiled for, and with what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from specc.errors import SpeccError

# The compiler, exactly: another version gives other machine code under the same name. It is the one that torch 2.13
# pairs with, so that both can be installed.
TRITON_VERSION: Final = "3.7.1"
# Shared memory that a kernel gets without asking the driver for more.
MOST_SHARED_BYTES: Final = 48 * 1024


@dataclass(frozen=True)
class KernelTarget:
    """A compute capability.

    Attributes:
        compute_capability: as `9.0`.
        target: what the PTX says it is for; from 9.0 on code is for that one generation.
        ptx_version: PTX ISA, times 10: the lowest that knows the GPU and all instructions used, so that a driver as
            old as CUDA 12.8 (12.9 for 10.3) takes it.
        assembler: of the two that come with Triton.
    """

    compute_capability: str
    target: str
    ptx_version: int
    assembler: str

    @property
    def number(self) -> int:
        """Return 90 for 9.0."""
        major, minor = self.compute_capability.split(".")
        return int(major) * 10 + int(minor)


_ROWS: Final = (
    KernelTarget("8.0", "sm_80", 87, "ptxas"),
    KernelTarget("8.6", "sm_86", 87, "ptxas"),
    KernelTarget("8.9", "sm_89", 87, "ptxas"),
    KernelTarget("9.0", "sm_90a", 87, "ptxas"),
    KernelTarget("10.0", "sm_100a", 87, "ptxas-blackwell"),
    KernelTarget("10.3", "sm_103a", 88, "ptxas-blackwell"),
    KernelTarget("12.0", "sm_120a", 87, "ptxas-blackwell"),
)

KERNEL_TARGETS: Final[dict[str, KernelTarget]] = {row.compute_capability: row for row in _ROWS}


def target_from_capability(compute_capability: str) -> KernelTarget:
    """Return the row of a GPU.

    Raises:
        SpeccError: SPC530 there are no kernels for it.
    """
    if compute_capability not in KERNEL_TARGETS:
        raise SpeccError(
            "SPC530",
            f"SM {compute_capability}",
            f"The verification plugin has kernels for SM {', '.join(KERNEL_TARGETS)}.",
            "Machine code is for one generation of GPUs.",
            "Choose a GPU of that list, or the back end `tensorrt-rtx`, which verifies with native operators.",
        )
    return KERNEL_TARGETS[compute_capability]
