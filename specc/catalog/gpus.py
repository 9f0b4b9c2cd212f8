"""GPUs that a recipe can name: facts of the makers' documents, in decimal units as printed there.

Every row says where they were read: many of these documents through a page that quotes them; what was found in no open
page is said, with what it was computed from.
"""

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
_PCIE4: Final = 64
_PCIE5: Final = 128

# Where the makers' documents were read through others that quote them, these are named: looked up on 2026-11-30.
_ML_ENGINEERING: Final = (
    "stas00/ml-engineering, compute/accelerator/README.md, tables of dense peaks and of memory, quoting the makers"
)
_LIGHTNING: Final = "Lightning-AI/pytorch-lightning, fabric/utilities/throughput.py, quoting"
_A100_SOURCE: Final = (
    f"A100 data sheet r4 (peaks through {_LIGHTNING} it; 1555 and 2039 GB/s through huataihuang/cloud-atlas, "
    "nvidia_a100.rst); 1935 GB/s of the 80 GB PCIe card by the same sheet, not found in a second page"
)
_H100_SOURCE: Final = (
    f"H100 architecture paper, peaks without sparsity ({_LIGHTNING} it); bandwidth and NVLink: {_ML_ENGINEERING}"
)
_BRIEF: Final = (
    "Blackwell architecture technical brief, dense peaks (through glennklockwood.com/garden/processors/B200)"
)

_ROWS: Final = (
    GpuRow("cpu", "the CPU of the machine", None, None, None, "no constant facts"),
    _row("t4", "NVIDIA T4", "7.5", ("gddr", 16, 320), _peaks(8.1, 65, int8=130),
         source=f"T4 data sheet 951643 ({_LIGHTNING} it); 320 GB/s: RajBhope/gpu-runtime-predictor, gpu_catalog.json",
         link=32),
    _row("a100-sxm-40gb", "NVIDIA A100 40GB SXM", "8.0", ("hbm", 40, 1555), _A100, source=_A100_SOURCE, link=600),
    _row("a100-pcie-40gb", "NVIDIA A100 40GB PCIe", "8.0", ("hbm", 40, 1555), _A100, source=_A100_SOURCE, link=_PCIE4),
    _row("a100-sxm-80gb", "NVIDIA A100 80GB SXM", "8.0", ("hbm", 80, 2039), _A100, source=_A100_SOURCE, link=600),
    _row("a100-pcie-80gb", "NVIDIA A100 80GB PCIe", "8.0", ("hbm", 80, 1935), _A100, source=_A100_SOURCE, link=_PCIE4),
    _row(
        "a10", "NVIDIA A10", "8.6", ("gddr", 24, 600), _peaks(31.2, 125, int8=250),
        source=f"A10 data sheet (peaks through {_LIGHTNING} it); 24 GB and 600 GB/s: RajBhope/gpu-runtime-predictor, "
        "gpu_catalog.json, of the A10G", link=_PCIE4,
    ),
    _row(
        "rtx-3090", "NVIDIA GeForce RTX 3090", "8.6", ("gddr", 24, 936), _peaks(35.6, 71, int8=284),
        source=f"GA102 architecture paper v2, appendix A (f32 and int8 through {_LIGHTNING} it); f16 with f32 sums "
        "computed: a quarter of int8", link=112.5,
    ),
    _row(
        "rtx-a6000", "NVIDIA RTX A6000", "8.6", ("gddr", 48, 768), _peaks(38.7, 154.8, int8=309.7),
        source=f"GA102 architecture paper v2, appendix C (f32 and int8 through {_LIGHTNING} it); 768 GB/s: "
        "techbriefly.com, RTX A6000; f16 computed: half of int8", link=112.5,
    ),
    _row(
        "jetson-agx-orin-64gb", "NVIDIA Jetson AGX Orin 64GB", "8.7", ("lpddr", 64, 204.8), _peaks(5.3, 42.5, int8=85),
        source="Jetson AGX Orin technical brief: 5.3 TFLOP/s f32 and 170 TOP/s of sparse int8 of the GPU alone "
        "(through "
        "mzph.cn, article 30785); int8 and f16 by halves of it; 204.8 GB/s not found in an open page, by the brief",
    ),
    _row(
        "l4", "NVIDIA L4", "8.9", ("gddr", 24, 300), _peaks(30.3, 121, int8=242, fp8=242),
        source=f"Ada architecture paper v2.1 (peaks through {_LIGHTNING} it); 300 GB/s and 242 TFLOP/s of dense fp8: "
        "yobitel.com, NVIDIA L4", link=_PCIE4,
    ),
    _row(
        "l40s", "NVIDIA L40S", "8.9", ("gddr", 48, 864), _peaks(91.6, 362, int8=733, fp8=733),
        source=f"L40S data sheet, without and with sparsity (through mullet.se, L40S); {_ML_ENGINEERING}", link=_PCIE4,
    ),
    _row(
        "rtx-4090", "NVIDIA GeForce RTX 4090", "8.9", ("gddr", 24, 1008), _peaks(82.6, 165.2, int8=660.6, fp8=330.3),
        source=f"Ada architecture paper v2.1 (f32 and int8 through {_LIGHTNING} it); f16 and fp8 with f32 sums and "
        "1008 GB/s: waredb.com, GeForce RTX 4090", link=_PCIE4,
    ),
    _row(
        "rtx-6000-ada", "NVIDIA RTX 6000 Ada Generation", "8.9", ("gddr", 48, 960),
        _peaks(91.1, 364.2, int8=728.5, fp8=728.5), link=_PCIE4,
        source="grafikkarten.com, RTX 6000 Ada: 91.1 TFLOP/s f32, 960 GB/s, 568 tensor cores; their rates not found "
        "in an "
        "open page, computed from f32: 4 and 8 times, as on the L40S",
    ),
    _row("h100-sxm-80gb", "NVIDIA H100 80GB SXM", "9.0", ("hbm", 80, 3350), _H100, source=_H100_SOURCE, link=900),
    _row(
        "h100-pcie-80gb", "NVIDIA H100 80GB PCIe", "9.0", ("hbm", 80, 2000), _peaks(51, 756, int8=1513, fp8=1513),
        source=f"{_H100_SOURCE}; product brief PB-11133-001 v02: greater than 2000 GB/s", link=_PCIE5,
    ),
    _row(
        "h100-nvl-94gb", "NVIDIA H100 NVL (one of the pair)", "9.0", ("hbm", 94, 3900),
        _peaks(60, 835, int8=1670, fp8=1670), link=600,
        source="94 GB, 3.9 TB/s and 600 GB/s: aiminingco.com, H100 NVL; its rates not found in an open page: by "
        "NVIDIA's data sheet, with sparsity, halved; the SXM card is 18 % above them",
    ),
    _row(
        "h200", "NVIDIA H200 SXM", "9.0", ("hbm", 141, 4800), _H100, link=900,
        source=f"{_ML_ENGINEERING}; 141 GB and 900 GB/s: mlcommons/inference_results_v4.1, H200-SXM-141GBx8",
    ),
    _row(
        "b200", "NVIDIA B200 (HGX, per GPU)", "10.0", ("hbm", 180, 8000),
        _peaks(80, 2250, int8=4500, fp8=4500, fp4=9000), link=1800,
        source=f"{_BRIEF}; 180 GB and 18 NVLinks: mlcommons/inference_results_v6.0, nebius_b200_n1; the brief says "
        "192 GB",
    ),
    _row(
        "gb200", "NVIDIA GB200 (NVL72, per GPU)", "10.0", ("hbm", 186, 8000),
        _peaks(80, 2500, int8=5000, fp8=5000, fp4=10000), link=1800,
        source=f"{_BRIEF}, of the 1200 W part; 80 TFLOP/s f32: {_ML_ENGINEERING}; 186 of 192 GB are usable by NVIDIA's "
        "data sheet of the rack, which was not found in an open page",
    ),
    _row(
        "b300", "NVIDIA B300 (HGX, per GPU)", "10.3", ("hbm", 288, 8000), _peaks(75, 2250, fp8=4500, fp4=13125),
        source="HGX B300 (through glennklockwood.com/garden/processors/B300), dense; int8 left out: there 4500 as on "
        "the "
        "B200, in verda.com's table of the same card 150", link=1800,
    ),
    _row(
        "jetson-thor", "NVIDIA Jetson AGX Thor (T5000), memory shared with the CPU", "11.0", ("lpddr", 128, 273),
        _peaks(8.1, 258, fp8=517, fp4=1035),
        source="2070 TFLOP/s of sparse fp4 and 128 GB: edgeaistack.ai, Jetson Thor; fp4, fp8 and f16 by halves of it; "
        "273 GB/s and f32 not found in an open page, by NVIDIA's data sheet",
    ),
    _row(
        "rtx-5090", "NVIDIA GeForce RTX 5090", "12.0", ("gddr", 32, 1792),
        _peaks(104.8, 209.5, int8=838, fp8=419, fp4=1676), link=_PCIE5,
        source="Linux Format, May 2025: 838 (f16) and 3352 (fp4) TFLOP/s with sparsity and f16 sums, 1792 GB/s; "
        "dense and "
        "with f32 sums, the half of both for f16 and fp8: computed",
    ),
    _row(
        "rtx-pro-6000-blackwell", "NVIDIA RTX PRO 6000 Blackwell Workstation", "12.0", ("gddr", 96, 1792),
        _peaks(125, 503.8, int8=1007.6, fp8=1007.6, fp4=2015.2), link=_PCIE5,
        source="topcpu.net, 2025: 752 tensor cores, 125 TFLOP/s f32, 4000 TOP/s of sparse fp4, 96 GB, 1792 GB/s; f16 "
        "not "
        "found in an open page, computed: 752 cores x 256 operations at 2.617 GHz, f32 sums at the full rate; fp8 "
        "and fp4 "
        "by doubling",
    ),
    _row(
        "gb10", "NVIDIA GB10 (DGX Spark), memory shared with the CPU", "12.1", ("lpddr", 128, 273),
        _peaks(31, 125, fp8=250, fp4=500),
        source="NVIDIA at Hot Chips 2025: 1 PFLOP/s of sparse fp4, 31 TFLOP/s f32 (through meterpreter.org); 273 GB/s: "
        "ai-infrastructure.net, DGX Spark; fp4, fp8 and f16 by halves",
    ),
    _row(
        "mi300x", "AMD Instinct MI300X", "gfx942", ("hbm", 192, 5300), _peaks(163.4, 1307, int8=2615, fp8=2615),
        source=f"alpharomercoma/MI300X-vs-H200, REPORT.md: AMD's dense peaks; f32: {_ML_ENGINEERING}; 896 GB/s: "
        "gpu.blog, "
        "MI300X", link=896, planning_only=True,
    ),
    _row(
        "mi355x", "AMD Instinct MI355X", "gfx950", ("hbm", 288, 8000),
        _peaks(157.3, 2500, int8=5000, fp8=5000, fp4=10000), link=1075, planning_only=True,
        source="288 GB and 8 TB/s: Boston Limited, AMD Instinct MI355X, 2025-08-14; 5 PFLOP/s of fp8: AMD at ISSCC "
        "2026 "
        "(through world-today-news.com); f16 and fp4 by half and double; f32 and links not found in an open page, by "
        "AMD's "
        "data sheet",
    ),
)  # fmt: skip

GPUS: Final[dict[str, GpuRow]] = {row.name: row for row in _ROWS}

COMPUTE_CAPABILITIES: Final[tuple[str, ...]] = (
    "7.5", "8.0", "8.6", "8.7", "8.9", "9.0", "10.0", "10.3", "11.0", "12.0", "12.1",
)  # fmt: skip


def gigabytes_text(count: int) -> str:
    """Return a GPU's memory as its maker states it: `80 GB`, and `0.5 GB` of a small one."""
    amount = count / GB
    return f"{amount:.0f} GB" if amount >= 10 else f"{amount:.2g} GB"


def sm_number(compute_capability: str) -> tuple[int, int]:
    """Return `8.9` as a pair that orders like versions do; what is no such number comes before all of them."""
    major, _, minor = compute_capability.partition(".")
    return (int(major), int(minor or 0)) if major.isdecimal() else (0, 0)
