"""Huge pages under what a block allocates: which memory that is, that it keeps its content, and that they come."""

from __future__ import annotations

import mmap
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specc.runtime.runners import huge_pages
from specc.runtime.runners.huge_pages import AddressRange, huge_pages_under_new_memory, ranges_from_maps, ranges_without

MAPS = """\
559f0a000000-559f0a021000 rw-p 00000000 00:00 0                          [heap]
7f0000000000-7f0000200000 rw-p 00000000 00:00 0
7f0000200000-7f0000300000 rw-p 00001000 fe:00 1234                       /usr/lib/libc.so.6
7f0000300000-7f0000400000 r--p 00000000 00:00 0
7f0000400000-7f0000500000 rw-s 00000000 00:01 77                         /dev/shm/shared with a space
7f0000500000-7f0000600000 rw-s 00000000 00:00 0
7f0000600000-7f0000700000 rw-p 00000000 00:00 0                          [anon: named]
7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0                          [stack]
"""
ENDS = st.lists(st.integers(0, 60), max_size=12, unique=True).map(sorted)


def ranges(ends: list[int]) -> list[AddressRange]:
    """Return the ranges between the first and second end, the third and fourth, and so on."""
    return [AddressRange(*pair) for pair in zip(ends[::2], ends[1::2], strict=False)]


def covered(found: list[AddressRange]) -> set[int]:
    """Return every address of the ranges."""
    return {address for one in found for address in range(one.start, one.end)}


def huge_bytes(start: int, end: int) -> int:
    """Return how many bytes of huge pages the process has between two addresses."""
    total, inside = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        first = line.split()[0]
        if not first.endswith(":"):
            low, high = (int(edge, 16) for edge in first.split("-"))
            inside = low < end and high > start
        elif inside and first == "AnonHugePages:":
            total += int(line.split()[1]) << 10
    return total


def test_private_memory_without_a_file_is_found() -> None:
    assert ranges_from_maps(MAPS) == [
        AddressRange(0x559F0A000000, 0x559F0A021000),
        AddressRange(0x7F0000000000, 0x7F0000200000),
    ]


@given(ENDS, ENDS)
def test_what_is_left_is_in_the_ranges_and_in_no_other(ends: list[int], others: list[int]) -> None:
    left = ranges_without(ranges(ends), ranges(others))
    assert covered(left) == covered(ranges(ends)) - covered(ranges(others))
    assert all(one.start < one.end for one in left)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_new_memory_keeps_its_content_and_gets_huge_pages() -> None:
    private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    old = mmap.mmap(-1, 16 << 20, flags=private)
    old.write(b"\1" * (16 << 20))
    with huge_pages_under_new_memory():
        new = mmap.mmap(-1, 16 << 20, flags=private)
        new.write(b"\2" * (16 << 20))
    before, after = (np.frombuffer(memory, dtype=np.uint8) for memory in (old, new))
    assert (before == 1).all()
    assert (after == 2).all()
    release = tuple(int(part) for part in Path("/proc/sys/kernel/osrelease").read_text().split("-")[0].split(".")[:2])
    setting = huge_pages.SETTING.read_text() if huge_pages.SETTING.exists() else "[never]"
    if "[madvise]" not in setting or release < (6, 1):
        pytest.skip(f"Linux {release}, huge pages {setting.strip()}: what is asked here may not be given at once")
    assert huge_bytes(after.ctypes.data, after.ctypes.data + len(after)) >= 8 << 20


def test_an_administrators_never_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    setting, maps = tmp_path / "enabled", tmp_path / "maps"
    monkeypatch.setattr(huge_pages, "SETTING", setting)
    monkeypatch.setattr(huge_pages, "MAPS", maps)
    maps.write_text("read rw-p")  # no line of such a file: whoever reads it fails
    setting.write_text("always madvise [never]\n")
    with huge_pages_under_new_memory():
        pass
    setting.unlink()  # a kernel without them
    with huge_pages_under_new_memory():
        pass
    setting.write_text("always [madvise] never\n")
    with pytest.raises(IndexError), huge_pages_under_new_memory():
        pass
    maps.unlink()  # no /proc
    with huge_pages_under_new_memory():
        pass


def test_what_the_block_raises_comes_through() -> None:
    with pytest.raises(ZeroDivisionError), huge_pages_under_new_memory():
        raise ZeroDivisionError
