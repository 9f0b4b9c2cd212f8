"""Timing caches: what TensorRT measured of its kernels on this GPU, handed from build to build.

With the timings of an earlier build the builder chooses the same kernels again, and does not run them to find out.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from specc.backends.aids import Timings

# Objects of TensorRT's classes; they ship without type hints.
Vendor: TypeAlias = Any


def attached_timings(config: Vendor, timings: Timings) -> bytes:
    """Give a configuration the timings of earlier builds and return them; empty ones where the library refuses these.

    It refuses what another version, or a GPU with other properties, has measured.

    Raises:
        SpeccError: SPC613 the store lacks the timings that a lock file names.
    """
    content = timings.load()
    cache = config.create_timing_cache(content)
    if cache is None or not config.set_timing_cache(cache, ignore_mismatch=False):
        content = b""
        config.set_timing_cache(config.create_timing_cache(content), ignore_mismatch=False)
    return content


def keep_timings(config: Vendor, timings: Timings, begun_with: bytes) -> None:
    """Keep what a build has measured beside what other builds have added since it began.

    Args:
        config: of a finished build.
        timings: takes them.
        begun_with: what `attached_timings` returned.
    """
    measured = config.get_timing_cache()

    def merged(newest: bytes | None) -> bytes:
        if newest is not None and newest != begun_with:
            other = config.create_timing_cache(newest)
            if other is not None:
                measured.combine(other, ignore_mismatch=False)
        return bytes(memoryview(measured.serialize()))

    timings.keep(merged)
