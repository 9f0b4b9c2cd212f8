"""The engine's file: written under another name first, and what its bytes tell without a GPU."""

from __future__ import annotations

import mmap
import re
from collections import Counter
from pathlib import Path
from typing import Final

from specc.bundle.manifest import ProfileSpec
from specc.errors import SpeccError
from specc.progress import Progress

_CHUNK: Final = 1 << 24
_ATTENTION_KERNEL: Final = re.compile(rb"_ge(?:mm|mv)_mha_v\d")


def write_engine(engine: memoryview, target: Path, progress: Progress) -> None:
    """Write an engine's bytes; `target` appears when they are all on disk.

    Raises:
        SpeccError: SPC503 the disk refuses; nothing is left behind.
    """
    content = engine.cast("B")
    partial = target.with_name(target.name + ".partial")
    try:
        with partial.open("wb") as file:
            for start in range(0, len(content), _CHUNK):
                file.write(content[start : start + _CHUNK])
                progress(f"write {target.name}", min(start + _CHUNK, len(content)), len(content))
        partial.replace(target)
    except OSError as error:
        raise SpeccError(
            "SPC503",
            str(target),
            f"The engine of {len(content)} bytes cannot be written: {error.strerror or error}.",
            "A bundle carries its engines.",
            "Free space on that disk, or build elsewhere with `--out DIR`.",
        ) from error
    finally:
        partial.unlink(missing_ok=True)


def attention_kernels(engine: Path) -> Counter[str]:
    """Return how often each family of fused attention kernels is named in an engine of TensorRT-RTX.

    `_gemv_mha_v1` is the kernel of a single query token, `_gemm_mha_v2` that of several. An engine cannot be inspected
    without a GPU, but it holds these names as text.
    """
    with engine.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return Counter(match.group().decode() for match in _ATTENTION_KERNEL.finditer(content))


def expected_kernels(profiles: tuple[ProfileSpec, ...]) -> set[str]:
    """Return the families that an engine with these profiles must name, so that each runs fused attention."""
    return {"_gemv_mha_v1" if profile.tokens == (1, 1, 1) else "_gemm_mha_v2" for profile in profiles}
