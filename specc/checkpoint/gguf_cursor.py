"""A bounds-checked cursor over the header of a GGUF file: no count or length is trusted beyond the bytes that exist."""

from __future__ import annotations

import mmap
import struct
from pathlib import Path
from typing import Final, TypeAlias

from specc.errors import SpeccError

GgufValue: TypeAlias = "int | float | bool | str | list[int] | list[float] | list[bool] | list[str]"

MAX_HEADER_BYTES: Final = 128 << 20
MAX_STRING_BYTES: Final = 16 << 20
MAX_ARRAY_ITEMS: Final = 4 << 20
STRING, ARRAY = 8, 9
SCALARS: Final[dict[int, str]] = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "?",
    10: "Q",
    11: "q",
    12: "d",
}
"""struct codes of the scalar value types, by their number in the format."""


class Cursor:
    """Reads little-endian values one after the other from a mapped file."""

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self.path = path
        self.data = data
        self.end = min(len(data), MAX_HEADER_BYTES)
        self.offset = 0

    def damaged(self, problem: str) -> SpeccError:
        """Return the error for damage at the cursor."""
        return damaged_gguf(self.path, f"{problem}, at byte {self.offset}")

    def scalar(self, code: str) -> int | float | bool:
        """Read one number of the struct code."""
        size = struct.calcsize("<" + code)
        start = self._advance(size)
        value: int | float | bool = struct.unpack_from("<" + code, self.data, start)[0]
        return value

    def count(self, code: str, most: int, what: str) -> int:
        """Read an unsigned count and check it against a limit."""
        value = int(self.scalar(code))
        if value > most:
            raise self.damaged(f"{what} is {value}, at most {most} are possible")
        return value

    def string(self) -> str:
        """Read a length and that many bytes of UTF-8."""
        length = self.count("Q", MAX_STRING_BYTES, "the length of a string")
        start = self._advance(length)
        try:
            return self.data[start : start + length].decode("utf-8")
        except UnicodeDecodeError:
            raise self.damaged("a string is not UTF-8") from None

    def value(self) -> GgufValue:
        """Read a typed metadata value; arrays of arrays are not part of any model's metadata and are refused."""
        kind = int(self.scalar("I"))
        if kind in SCALARS:
            return self.scalar(SCALARS[kind])
        if kind == STRING:
            return self.string()
        if kind == ARRAY:
            return self._array()
        raise self.damaged(f"value type {kind} is unknown")

    def _array(self) -> GgufValue:
        kind = int(self.scalar("I"))
        items = self.count("Q", MAX_ARRAY_ITEMS, "the length of an array")
        if kind == STRING:
            return self._strings(items)
        if kind not in SCALARS:
            raise self.damaged(f"array of value type {kind}")
        code = f"<{items}{SCALARS[kind]}"
        start = self._advance(struct.calcsize(code))
        return list(struct.unpack_from(code, self.data, start))

    def _strings(self, items: int) -> list[str]:
        """Read many strings: as `string`, in one loop, since vocabularies have hundreds of thousands."""
        length_at, data, end = struct.Struct("<Q").unpack_from, self.data, self.end
        strings: list[str] = []
        for _ in range(items):
            start = self.offset + 8
            stop = start + (length_at(data, self.offset)[0] if start <= end else end)
            if stop > end:
                break
            try:
                strings.append(data[start:stop].decode("utf-8"))
            except UnicodeDecodeError:
                break
            self.offset = stop
        if len(strings) < items:
            self.string()  # says what is wrong with the string that stopped the loop
            raise self.damaged("a string cannot be read")
        return strings

    def _advance(self, size: int) -> int:
        start = self.offset
        if start + size > self.end:
            raise self.damaged(f"the header ends early: {size} more bytes expected, {self.end - start} are possible")
        self.offset = start + size
        return start


def damaged_gguf(path: Path, problem: str) -> SpeccError:
    """Return the error for a GGUF file whose header cannot be right."""
    return SpeccError(
        "SPC230",
        str(path),
        problem,
        "tensors and metadata would be read from wrong bytes",
        "download the file again and compare its size and digest with the source",
    )
