"""sha256 of files and keys of the content-addressed store."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

from specc.errors import SpeccBug, SpeccError

HashProgress: TypeAlias = Callable[[str, int, int], None]

_CHUNK: Final = 1 << 20
_KEY_FORM: Final = "specc key 1\n"  # another form of the text below must never give the key of this one


def sha256_from_file(path: Path, progress: HashProgress | None = None) -> str:
    """Return the sha256 of a regular file in hex, reading one MiB at a time.

    Args:
        path: the file; a symbolic link is followed.
        progress: told (path, bytes done, bytes in all) after each 64 MiB.

    Raises:
        SpeccError: SPC612 it is not a regular file, or it changed while it was read.
        OSError: it cannot be read.
    """
    if not stat.S_ISREG(path.stat().st_mode):  # a FIFO would wait for ever
        raise _unstable(path, "it is not a regular file")
    digest = hashlib.sha256()
    buffer = memoryview(bytearray(_CHUNK))
    done = 0
    with path.open("rb", buffering=0) as file:
        before = os.fstat(file.fileno())
        while count := file.readinto(buffer):
            digest.update(buffer[:count])
            done += count
            if progress is not None and done % (64 * _CHUNK) < count:
                progress(str(path), done, before.st_size)
        after = os.fstat(file.fileno())
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns) or done != after.st_size:
        raise _unstable(path, "it changed while it was read")
    return digest.hexdigest()


def sha256_from_text(text: str) -> str:
    """Return the sha256 of a text's UTF-8 bytes in hex."""
    return hashlib.sha256(text.encode()).hexdigest()


def key_from_parts(parts: Mapping[str, Any]) -> str:
    """Return the key of what is made from these inputs: sha256 of their canonical JSON, in hex.

    Args:
        parts: everything that decides the result: digests of the sources, options, library versions, the SM, specc's
            version. Values are JSON values (str, int, finite float, bool, None, lists, tuples, dicts with str keys).

    Raises:
        SpeccBug: a value that JSON does not tell apart from another one, as a key that is no string.
    """
    _refuse_lossy(parts, "parts")
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return sha256_from_text(_KEY_FORM + text)


def _refuse_lossy(value: object, place: str) -> None:
    if isinstance(value, Mapping):
        for name, item in value.items():
            if type(name) is not str:
                raise SpeccBug(f"{place}: the key {name!r} is not a string")
            _refuse_lossy(item, f"{place}.{name}")
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            _refuse_lossy(item, f"{place}[{index}]")
    elif type(value) is float:
        if value - value != 0.0:
            raise SpeccBug(f"{place}: {value} is not a JSON number")
    elif value is not None and type(value) not in (str, int, bool):
        raise SpeccBug(f"{place}: {type(value).__name__} is not a JSON value")


def _unstable(path: Path, got: str) -> SpeccError:
    return SpeccError(
        "SPC612",
        str(path),
        got,
        "its digest would say nothing about its content",
        "name a regular file, and let whatever writes it finish first",
    )
