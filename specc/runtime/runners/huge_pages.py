"""Huge pages under what loading an engine allocates: a call reads every weight once, and page after page is looked up.

Linux gives pages of 4 KB unless a program asks, and what reads weights is slowed by the look-ups, not by memory alone
(docs/performance.md). Vendors' allocators do not ask. `MADV_COLLAPSE` (Linux 6.1) moves pages that hold something
already; on older systems the advice before it lets the kernel do so by and by. Where an administrator chose `never`,
or the system is another, all stays as it is: no value depends on it.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

MAPS: Final = Path("/proc/self/maps")
SETTING: Final = Path("/sys/kernel/mm/transparent_hugepage/enabled")
PAGE_BYTES: Final = 2 << 20
"""Of a huge page; where the processor's are larger, the kernel refuses what does not fill one."""
MADV_HUGEPAGE: Final = 14
MADV_COLLAPSE: Final = 25
"""Both of linux/mman.h; Python's `mmap` has no name for the second yet, and on other systems for neither."""


class AddressRange(NamedTuple):
    """Addresses from `start` up to `end`, exclusive, in bytes."""

    start: int
    end: int


@contextmanager
def huge_pages_under_new_memory() -> Iterator[None]:
    """Put huge pages under the private memory that the process holds at the end of the block and did not at its start.

    What another thread allocates meanwhile is taken for the block's own, which does it no harm.
    """
    if not _is_wanted():
        yield
        return
    before = ranges_from_maps(MAPS.read_text())
    yield
    advise = ctypes.CDLL(None).madvise
    advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    for new in ranges_without(ranges_from_maps(MAPS.read_text()), before):
        start = -(-new.start // PAGE_BYTES) * PAGE_BYTES
        size = new.end // PAGE_BYTES * PAGE_BYTES - start
        if size > 0:
            # Both may be refused: advice is what they are.
            advise(start, size, MADV_HUGEPAGE)
            advise(start, size, MADV_COLLAPSE)


def ranges_from_maps(text: str) -> list[AddressRange]:
    """Return the private writable memory without a file, of the text of /proc/PID/maps, in rising order."""
    found = []
    for line in text.splitlines():
        # start-end, permissions, offset, device, inode, and a name that most such memory lacks
        fields = line.split(maxsplit=5)
        name = fields[5] if len(fields) > 5 else "[heap]"
        if fields[1] == "rw-p" and fields[4] == "0" and name == "[heap]":
            found.append(AddressRange(*(int(end, 16) for end in fields[0].split("-"))))
    return found


def ranges_without(ranges: Iterable[AddressRange], others: Iterable[AddressRange]) -> list[AddressRange]:
    """Return what of the ranges lies in none of the others; both in rising order, none of either over another."""
    left = []
    taken = list(others)
    for whole in ranges:
        start = whole.start
        for other in taken:
            if other.end <= start or other.start >= whole.end:
                continue
            if other.start > start:
                left.append(AddressRange(start, other.start))
            start = other.end
        if start < whole.end:
            left.append(AddressRange(start, whole.end))
    return left


def _is_wanted() -> bool:
    if sys.platform != "linux":
        return False
    try:
        return MAPS.exists() and "[never]" not in SETTING.read_text()
    except OSError:  # a kernel without them
        return False
