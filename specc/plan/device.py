"""How fast a device really is: a GPU's data sheet times the efficiencies that the validation fixed, or a CPU's probe.

The efficiencies of GPUs were fixed on the named half of the published points (docs/planning.md, "Validation").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from specc.catalog.gpus import GpuRow, MemoryKind, PeakDtype
from specc.plan.machine import Machine


@dataclass(frozen=True)
class Efficiency:
    """What of a peak is reached.

    Attributes:
        bandwidth: share of the nominal memory bandwidth that streams weights.
        compute: share of the dense peak in matrix products.
        unpacked: the same where integer weights are turned into floats first.
    """

    bandwidth: float
    compute: float
    unpacked: float


@dataclass(frozen=True)
class Overheads:
    """Time that does not depend on sizes, in seconds.

    Attributes:
        call: one call of the target, sampling and bookkeeping included.
        layer: one decoder layer: launches that nothing hides.
        draft_call: one call of a draft model.
        round: what a speculative round adds to its calls: acceptance, bookkeeping, the cache of the draft.
    """

    call: float
    layer: float
    draft_call: float
    round: float


@dataclass(frozen=True)
class Gpu:
    """A GPU, or several alike, as the cost model sees it.

    Attributes:
        bandwidth_bytes: bytes per second of the data sheet.
        flops: operations per second by type, of the data sheet.
        link_bytes: bytes per second between two devices, one direction; None: one device only.
        count: devices that share every matrix.
    """

    bandwidth_bytes: float
    flops: dict[PeakDtype, float]
    efficiency: Efficiency
    overheads: Overheads
    link_bytes: float | None
    count: int

    def rate(self, arithmetic: PeakDtype, *, unpacked: bool) -> float:
        """Return operations per second that matrix products of a type reach.

        A type that the device does not have runs in the next wider one that it has.
        """
        wider: dict[PeakDtype, tuple[PeakDtype, ...]] = {
            "fp4": ("fp4", "fp8", "f16", "f32"),
            "fp8": ("fp8", "f16", "f32"),
            "int8": ("int8", "f16", "f32"),
            "f16": ("f16", "f32"),
            "f32": ("f32",),
        }
        peak = next(self.flops[dtype] for dtype in wider[arithmetic] if dtype in self.flops)
        return peak * (self.efficiency.unpacked if unpacked else self.efficiency.compute)


@dataclass(frozen=True)
class Cpu:
    """A CPU as the cost model sees it."""

    machine: Machine
    overheads: Overheads

    @property
    def count(self) -> int:
        """One: nothing is shared."""
        return 1


Device: TypeAlias = Gpu | Cpu


# Not fitted, since no point of the fitted half needs them: compute on HBM, and unpacked weights outside LPDDR.
GPU_EFFICIENCY: Final[dict[MemoryKind, Efficiency]] = {
    "hbm": Efficiency(0.70, 0.50, 0.30),
    "gddr": Efficiency(0.85, 0.42, 0.30),
    "lpddr": Efficiency(0.90, 0.15, 0.10),
}
COMPILED: Final = Overheads(call=4e-4, layer=9e-6, draft_call=2.5e-4, round=8e-4)
"""Graphs launched as one: CUDA graphs, TensorRT engines."""
EAGER: Final = Overheads(call=1.5e-3, layer=3.4e-4, draft_call=6e-4, round=3.5e-3)
"""A framework that launches every kernel from Python, as the reference code of papers does."""
ON_CPU: Final = Overheads(call=5e-5, layer=0.0, draft_call=5e-5, round=3e-4)
"""Python around a call; what operators take to start is measured."""

SPREAD: Final = 0.21
"""Share of a speed-up by which the model may miss: ten of the eleven fitted points lie within it."""


def device_from_gpu(row: GpuRow, count: int = 1, overheads: Overheads = COMPILED) -> Gpu | None:
    """Return a GPU as the model sees it; None where its row states no bandwidth or peaks."""
    if row.bandwidth_bytes is None or row.peaks is None or row.memory_kind is None:
        return None
    kinds: tuple[PeakDtype, ...] = ("f32", "f16", "int8", "fp8", "fp4")
    flops = {kind: float(rate) for kind in kinds if (rate := row.peaks.rate(kind)) is not None}
    link = None if row.link_bytes is None else row.link_bytes / 2
    efficiency = GPU_EFFICIENCY[row.memory_kind]
    return Gpu(float(row.bandwidth_bytes), flops, efficiency, overheads, link, count)


def device_from_machine(machine: Machine) -> Cpu:
    """Return this machine's CPU as the model sees it."""
    return Cpu(machine, ON_CPU)
