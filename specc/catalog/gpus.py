"""GPUs that a recipe can name: facts of the makers' data sheets, in decimal units as printed there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

GB: Final = 10**9
TERA: Final = 10**12

PeakDtype: TypeAlias = Literal["f32", "f16", "int8", "fp8", "fp4"]
MemoryKind: TypeAlias = Literal["hbm", "gddr", "lpddr"]


@dataclass(frozen=True)
class Peaks:
    """Dense peak rates of matrix products in operations per second, without sparsity; None: no such arithmetic.

    Attributes:
        f32: outside the tensor cores.
        f16: f16 and bf16 products with f32 sums.
        int8, fp8, fp4: products of these types.
    """

    f32: int | None
    f16: int | None
    int8: int | None = None
    fp8: int | None = None
    fp4: int | None = None

    def rate(self, dtype: PeakDtype) -> int | None:
        """Return the peak of one type."""
        return {"f32": self.f32, "f16": self.f16, "int8": self.int8, "fp8": self.fp8, "fp4": self.fp4}[dtype]


@dataclass(frozen=True)
class GpuRow:
    """One GPU, or the CPU.

    Attributes:
        name: key of the row.
        title: the maker's name.
        compute_capability: SM as `8.9`, of AMD's the name of the instruction set; None for the CPU.
        memory_bytes: nominal memory (a card reports slightly more than these decimal gigabytes); None for the CPU,
            whose memory is the machine's.
        bandwidth_bytes: nominal memory bandwidth in bytes per second; None for the CPU.
        source: where the facts were read.
        peaks: dense peak rates; None for the CPU, which `specc probe` measures.
        memory_kind: which kind of memory; None for the CPU.
        link_bytes: bytes per second to other GPUs, both directions together, over the fastest link; None: no statement.
        planning_only: no back end of any version builds for it; `specc plan` compares it.
    """

    name: str
    title: str
    compute_capability: str | None
    memory_bytes: int | None
    bandwidth_bytes: int | None
    source: str
    peaks: Peaks | None = None
    memory_kind: MemoryKind | None = None
    link_bytes: int | None = None
    planning_only: bool = False


def _peaks(
    f32: float, f16: float, *, int8: float | None = None, fp8: float | None = None, fp4: float | None = None
) -> Peaks:
    rates = [None if rate is None else round(rate * TERA) for rate in (f32, f16, int8, fp8, fp4)]
    return Peaks(*rates)


def _row(
    name: str,
    title: str,
    sm: str,
    memory: tuple[MemoryKind, int, float],
    peaks: Peaks,
    *,
    source: str,
    link: float | None = None,
    planning_only: bool = False,
) -> GpuRow:
    kind, size, bandwidth = memory
    link_bytes = None if link is None else round(link * GB)
    return GpuRow(
        name, title, sm, size * GB, round(bandwidth * GB), source, peaks, kind, link_bytes, planning_only=planning_only
    )


_A100: Final = _peaks(19.5, 312, int8=624)
_H100: Final = _peaks(67, 989, int8=1979, fp8=1979)
_A100_SHEET: Final = "A100 data sheet"
_H100_SHEET: Final = "H100 data sheet; its rates with sparsity, halved"
_PCIE4: Final = 64
_PCIE5: Final = 128

_ROWS: Final = (
    GpuRow("cpu", "the CPU of the machine", None, None, None, "no constant facts"),
    _row("t4", "NVIDIA T4", "7.5", ("gddr", 16, 320), _peaks(8.1, 65, int8=130), source="T4 data sheet", link=32),
    _row("a100-sxm-40gb", "NVIDIA A100 40GB SXM", "8.0", ("hbm", 40, 1555), _A100, source=_A100_SHEET, link=600),
    _row("a100-pcie-40gb", "NVIDIA A100 40GB PCIe", "8.0", ("hbm", 40, 1555), _A100, source=_A100_SHEET, link=_PCIE4),
    _row("a100-sxm-80gb", "NVIDIA A100 80GB SXM", "8.0", ("hbm", 80, 2039), _A100, source=_A100_SHEET, link=600),
    _row("a100-pcie-80gb", "NVIDIA A100 80GB PCIe", "8.0", ("hbm", 80, 1935), _A100, source=_A100_SHEET, link=_PCIE4),
    _row("a10", "NVIDIA A10", "8.6", ("gddr", 24, 600), _peaks(31.2, 125, int8=250), source="A10 data sheet",
         link=_PCIE4),
    _row(
        "rtx-3090", "NVIDIA GeForce RTX 3090", "8.6", ("gddr", 24, 936), _peaks(35.6, 71, int8=284),
        source="GA102 architecture paper", link=112.5,
    ),
    _row(
        "rtx-a6000", "NVIDIA RTX A6000", "8.6", ("gddr", 48, 768), _peaks(38.7, 154.8, int8=309.7),
        source="RTX A6000 data sheet and GA102 architecture paper", link=112.5,
    ),
    _row(
        "jetson-agx-orin-64gb", "NVIDIA Jetson AGX Orin 64GB", "8.7", ("lpddr", 64, 204.8), _peaks(5.3, 42.5, int8=85),
        source="Jetson AGX Orin data sheet; of the GPU alone, its rates with sparsity halved",
    ),
    _row("l4", "NVIDIA L4", "8.9", ("gddr", 24, 300), _peaks(30.3, 121, int8=242, fp8=242),
         source="L4 data sheet; its rates with sparsity, halved", link=_PCIE4),
    _row("l40s", "NVIDIA L40S", "8.9", ("gddr", 48, 864), _peaks(91.6, 362, int8=733, fp8=733),
         source="L40S data sheet", link=_PCIE4),
    _row(
        "rtx-4090", "NVIDIA GeForce RTX 4090", "8.9", ("gddr", 24, 1008), _peaks(82.6, 165.2, int8=660.6, fp8=330.3),
        source="AD102 architecture paper", link=_PCIE4,
    ),
    _row(
        "rtx-6000-ada", "NVIDIA RTX 6000 Ada Generation", "8.9", ("gddr", 48, 960),
        _peaks(91.1, 364.2, int8=728.5, fp8=728.5), source="RTX 6000 Ada data sheet; its rates with sparsity, halved",
        link=_PCIE4,
    ),
    _row("h100-sxm-80gb", "NVIDIA H100 80GB SXM", "9.0", ("hbm", 80, 3350), _H100, source=_H100_SHEET, link=900),
    _row(
        "h100-pcie-80gb", "NVIDIA H100 80GB PCIe", "9.0", ("hbm", 80, 2000), _peaks(51, 756, int8=1513, fp8=1513),
        source=_H100_SHEET, link=_PCIE5,
    ),
    _row(
        "h100-nvl-94gb", "NVIDIA H100 NVL (one of the pair)", "9.0", ("hbm", 94, 3900),
        _peaks(60, 835, int8=1670, fp8=1670), source=_H100_SHEET, link=600,
    ),
    _row("h200", "NVIDIA H200 SXM", "9.0", ("hbm", 141, 4800), _H100, source="H200 data sheet", link=900),
    _row(
        "b200", "NVIDIA B200 (HGX, per GPU)", "10.0", ("hbm", 180, 8000),
        _peaks(75, 2250, int8=4500, fp8=4500, fp4=9000),
        source="DGX B200 data sheet, an eighth, sparsity halved", link=1800,
    ),
    _row(
        "gb200", "NVIDIA GB200 (NVL72, per GPU)", "10.0", ("hbm", 186, 8000),
        _peaks(80, 2500, int8=5000, fp8=5000, fp4=10000),
        source="GB200 NVL72 data sheet, a 72nd, sparsity halved", link=1800,
    ),
    _row(
        "b300", "NVIDIA B300 (HGX, per GPU)", "10.3", ("hbm", 288, 8000), _peaks(75, 2250, fp8=4500, fp4=13500),
        source="DGX B300 data sheet, an eighth, sparsity halved", link=1800,
    ),
    _row(
        "jetson-thor", "NVIDIA Jetson AGX Thor (T5000), memory shared with the CPU", "11.0", ("lpddr", 128, 273),
        _peaks(8.1, 258, fp8=517, fp4=1035), source="Jetson T5000 data sheet, sparsity halved; f16 as half of fp8",
    ),
    _row(
        "rtx-5090", "NVIDIA GeForce RTX 5090", "12.0", ("gddr", 32, 1792),
        _peaks(104.8, 209.5, int8=838, fp8=419, fp4=1676), source="RTX Blackwell architecture paper", link=_PCIE5,
    ),
    _row(
        "rtx-pro-6000-blackwell", "NVIDIA RTX PRO 6000 Blackwell Workstation", "12.0", ("gddr", 96, 1792),
        _peaks(125, 503.8, int8=1007.6, fp8=1007.6, fp4=2015.2),
        source="RTX PRO 6000 Blackwell data sheet and architecture paper", link=_PCIE5,
    ),
    _row(
        "gb10", "NVIDIA GB10 (DGX Spark), memory shared with the CPU", "12.1", ("lpddr", 128, 273),
        _peaks(31, 125, fp8=250, fp4=500),
        source="DGX Spark data sheet: 1 PFLOP/s of sparse FP4; fp4, fp8 and f16 by halves of it",
    ),
    _row(
        "mi300x", "AMD Instinct MI300X", "gfx942", ("hbm", 192, 5300), _peaks(163.4, 1307, int8=2615, fp8=2615),
        source="MI300X data sheet", link=896, planning_only=True,
    ),
    _row(
        "mi355x", "AMD Instinct MI355X", "gfx950", ("hbm", 288, 8000),
        _peaks(157.3, 2500, int8=5000, fp8=5000, fp4=10000), source="MI355X data sheet", link=1075, planning_only=True,
    ),
)  # fmt: skip

GPUS: Final[dict[str, GpuRow]] = {row.name: row for row in _ROWS}

COMPUTE_CAPABILITIES: Final[tuple[str, ...]] = (
    "7.5", "8.0", "8.6", "8.7", "8.9", "9.0", "10.0", "10.3", "11.0", "12.0", "12.1",
)  # fmt: skip
