"""Typed access to JSON objects and GGUF metadata: a wrong type is one coded error."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from specc.errors import SpeccError

MAX_JSON_BYTES: Final = 256 << 20
MAX_INTEGER: Final = 2**31 - 1


@dataclass(frozen=True)
class Values:
    """A mapping with a place, whose getters check types; a key that is absent or null takes the default.

    Attributes:
        path: the file, for messages.
        mapping: keys to plain Python values.
        prefix: where the mapping lies inside the file, as `rope_scaling.`; empty at the top.
    """

    path: Path
    mapping: Mapping[str, object]
    prefix: str = ""

    def __contains__(self, key: str) -> bool:
        return self.mapping.get(key) is not None

    def place(self, key: str) -> str:
        """Return `file key` as messages show it."""
        return f"{self.path} {self.prefix}{key if key.isprintable() else shortened(key)}"

    def integer(self, key: str, default: int | None = None, *, least: int = 1, most: int = MAX_INTEGER) -> int:
        """Return an integer between least and most; without a default the key is required."""
        value = self._value(key, default, f"an integer from {least} to {most}")
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise self._wrong(key, value, f"an integer from {least} to {most}")
        return value

    def number(
        self,
        key: str,
        default: float | None = None,
        *,
        least: float = -math.inf,
        most: float = math.inf,
        open_end: bool = True,
    ) -> float:
        """Return a finite number above `least`, or from it on when open_end is false, and up to `most`."""
        expected = (
            "a finite number" if least == -math.inf else f"a finite number {'above' if open_end else 'from'} {least:g}"
        )
        if most != math.inf:
            expected += f" up to {most:g}"
        value = self._value(key, default, expected)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._wrong(key, value, expected)
        try:
            number = float(value)
        except OverflowError:
            raise self._wrong(key, "an integer too large", expected) from None
        inside = least <= number <= most and not (open_end and number == least)
        if not math.isfinite(number) or not inside:
            raise self._wrong(key, value, expected)
        return number

    def boolean(self, key: str, default: bool | None = None) -> bool:
        """Return true or false."""
        value = self._value(key, default, "true or false")
        if not isinstance(value, bool):
            raise self._wrong(key, value, "true or false")
        return value

    def text(self, key: str, default: str | None = None) -> str:
        """Return a string."""
        value = self._value(key, default, "a string")
        if not isinstance(value, str) or not is_text(value):
            raise self._wrong(key, value, "a string")
        return value

    def nested(self, key: str) -> Values | None:
        """Return the object under the key, or None where it is absent or null."""
        value = self.mapping.get(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self._wrong(key, value, "an object")
        return Values(self.path, value, f"{self.prefix}{key}.")

    def texts(self, key: str) -> tuple[str, ...] | None:
        """Return a list of strings, or None where it is absent."""
        value = self.mapping.get(key)
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(item, str) and is_text(item) for item in value):
            raise self._wrong(key, value, "a list of strings")
        return tuple(value)

    def numbers(self, key: str) -> tuple[float, ...]:
        """Return a list of at least one finite number."""
        value = self._value(key, None, "a list of numbers")
        items: list[object] = value if isinstance(value, list) else []
        if not items or not all(_is_finite(item) for item in items):
            raise self._wrong(key, value, "a list of numbers")
        return tuple(float(item) for item in items if isinstance(item, int | float))

    def integers(self, key: str) -> tuple[int, ...] | None:
        """Return a list of integers from 0 on, or None where it is absent."""
        value = self.mapping.get(key)
        if value is None:
            return None
        items: list[object] = value if isinstance(value, list) else [-1]
        whole = [item for item in items if isinstance(item, int) and 0 <= item <= MAX_INTEGER]
        if len(whole) != len(items):
            raise self._wrong(key, value, "a list of integers from 0 on")
        return tuple(int(item) for item in whole)

    def ids(self, key: str) -> tuple[int, ...]:
        """Return token ids: one integer or a list of them; absent, null and negative ids mean none."""
        value = self.mapping.get(key)
        if value is None:
            return ()
        items: list[object] = value if isinstance(value, list) else [value]
        ids = [item for item in items if isinstance(item, int) and not isinstance(item, bool) and item <= MAX_INTEGER]
        if len(ids) != len(items):
            raise self._wrong(key, value, "a token id or a list of token ids")
        return tuple(item for item in ids if item >= 0)

    def _value(self, key: str, default: object, expected: str) -> object:
        value = self.mapping.get(key)
        if value is not None:
            return value
        if default is None:
            raise SpeccError(
                "SPC210",
                self.place(key),
                f"the key is missing; expected {expected}",
                "the model cannot be built without it",
                "use the file as the model's authors publish it",
            )
        return default

    def _wrong(self, key: str, value: object, expected: str) -> SpeccError:
        return SpeccError(
            "SPC210",
            self.place(key),
            f"got {shortened(value)}, expected {expected}",
            "the model cannot be built from it",
            "use the file as the model's authors publish it",
        )


def _is_finite(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def is_text(value: str) -> bool:
    """Return whether a string is Unicode text: JSON can escape half of a surrogate pair, which no file can hold."""
    return value.isascii() or not any("\ud800" <= char <= "\udfff" for char in value)


def shortened(value: object) -> str:
    """Return a value for a message: its repr, cut to 80 characters; containers only by kind and length."""
    if isinstance(value, list | dict) and len(value) > 4:
        return f"{'a list' if isinstance(value, list) else 'an object'} of {len(value)}"
    text = repr(value[:80] if isinstance(value, str) else value)
    return text if len(text) <= 80 else text[:77] + "..."


def bytes_from_file(path: Path, most: int = MAX_JSON_BYTES) -> bytes:
    """Return the content of a file of at most `most` bytes.

    Raises:
        SpeccError: SPC206 it cannot be read, or is larger.
    """
    try:
        size = path.stat().st_size
        if size > most:
            raise SpeccError(
                "SPC206", str(path), f"{size} bytes", f"such a file has at most {most} bytes", "check the download"
            )
        return path.read_bytes()
    except OSError as error:
        raise SpeccError(
            "SPC206",
            str(path),
            error.strerror or type(error).__name__,
            "it is part of the checkpoint",
            "restore the file or its permissions",
        ) from None


def text_from_file(path: Path, most: int = MAX_JSON_BYTES) -> str:
    """Return the UTF-8 text of a file of at most `most` bytes, its lines ended as Python ends them.

    Raises:
        SpeccError: SPC206 it cannot be read, SPC210 it is not UTF-8.
    """
    try:
        text = bytes_from_file(path, most).decode()
    except UnicodeDecodeError as error:
        raise not_utf8(path, error) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def not_utf8(path: Path, error: UnicodeDecodeError) -> SpeccError:
    """Return the error for a text file that holds other bytes."""
    return SpeccError(
        "SPC210", str(path), f"not UTF-8 at byte {error.start}", "it must be a text file", "download it again"
    )


def values_from_json_file(path: Path) -> Values:
    """Return the JSON object of a file.

    Raises:
        SpeccError: SPC206 the file cannot be read, SPC210 it is not a JSON object.
    """
    text = text_from_file(path)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        problem = "nested too deeply" if isinstance(error, RecursionError) else f"not JSON: {error}"
        raise SpeccError(
            "SPC210", str(path), problem, "the checkpoint is described by it", "download the file again"
        ) from None
    if not isinstance(value, dict):
        raise SpeccError(
            "SPC210",
            str(path),
            f"got {shortened(value)}, expected an object",
            "the checkpoint is described by it",
            "download the file again",
        )
    return Values(path, value)
