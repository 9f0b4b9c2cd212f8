"""Versions of TensorRT of which it is reported that they fail on graphs like specc's: version, SM, precision.

A row stands for a report, not for a measurement of ours, and goes no further than the report does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from specc.catalog.capabilities import BackendName, ComputeDtype

Version = tuple[int, ...]


@dataclass(frozen=True)
class KnownBad:
    """One report.

    Attributes:
        name: of the row.
        backend: whose library fails.
        first, last: versions, both included, as far as they were reported; `(11, 2)` includes every 11.2.
        compute_capabilities: SMs that it was seen on; empty: the report names none.
        dtypes: of activations and caches; empty: any.
        kernels: only engines that hold kernels of specc.
        least_capacity: cache rows from which on it was seen.
        what: happens, in words.
        fix: what to do, pasteable where possible.
        source: of the report, with its date.
    """

    name: str
    backend: BackendName
    first: Version
    last: Version
    compute_capabilities: tuple[str, ...]
    dtypes: tuple[ComputeDtype, ...]
    kernels: bool
    least_capacity: int
    what: str
    fix: str
    source: str

    @property
    def versions(self) -> str:
        """Return `11.1 to 11.2`, or `11.2` alone."""
        first, last = (".".join(map(str, version)) for version in (self.first, self.last))
        return first if first == last else f"{first} to {last}"


KNOWN_BAD: Final[tuple[KnownBad, ...]] = (
    KnownBad(
        name="leaked modules",
        backend="tensorrt",
        first=(11, 1),
        last=(11, 2, 1),
        compute_capabilities=(),
        dtypes=(),
        kernels=True,
        least_capacity=0,
        what="An engine with plugins that were compiled ahead leaks a CUDA module at each change of an input's shape; "
        "the memory comes back only when the process ends. specc's runtime keeps an execution context for each shape.",
        fix="another version of TensorRT, or restart the server when its memory grows",
        source="NVIDIA/TensorRT issue 4849, 2026-09-12, versions 11.1 and 11.2.1; open on 2026-11-30",
    ),
    KnownBad(
        name="float16 attention of one token",
        backend="tensorrt",
        first=(11, 2),
        last=(11, 2),
        compute_capabilities=(),
        dtypes=("f16",),
        kernels=False,
        least_capacity=1290,
        what="Attention with a mask, for one query token over 1290 rows, was off by up to 0.16 in float16, and text "
        "after long contexts was corrupted.",
        fix="target.scheme: bf16, or another version of TensorRT",
        source="NVIDIA/TensorRT-Model-Connect pull request 785, 2026-07-31, version 11.2, no GPU named",
    ),
    KnownBad(
        name="no kernel for a long cache",
        backend="tensorrt",
        first=(11, 2),
        last=(11, 2),
        compute_capabilities=("8.6",),
        dtypes=("bf16",),
        kernels=False,
        least_capacity=40960,
        what="The builder finds no fused attention for one query token over so many cache rows and makes no engine.",
        fix="lower limits.max_input or limits.max_output",
        source="NVIDIA/TensorRT-Model-Connect pull request 873, 2026-08-13, version 11.2, 40960 cache rows",
    ),
)
