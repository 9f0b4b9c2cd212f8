"""Bytes as messages state them."""

from __future__ import annotations

from typing import Final

UNITS: Final = (("GB", 10**9), ("MB", 10**6), ("kB", 10**3))


def size_text(count: int) -> str:
    """Return bytes in the largest decimal unit that leaves two digits: `70.7 GB`, `1.4 MB`, `12.0 kB`, `7 B`."""
    for unit, size in UNITS:
        if round(count / size, 1) >= 1:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"
