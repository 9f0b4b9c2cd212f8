"""What failures of the file system mean to a user: no space, no permission, or something else."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from specc.errors import SpeccError

FULL_BYTES: Final = 1 << 20  # less free space than this: a failure without an errno is taken for a full disk

_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_PERMISSION: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_DEVICE: Final = frozenset({errno.EIO, errno.EFBIG, errno.EROFS, errno.ESTALE})


def free_bytes(path: Path) -> int | None:
    """Return the bytes this user can still write on the file system of a path, or None when it cannot be told."""
    for folder in (path, *path.parents):
        with contextlib.suppress(OSError):
            return shutil.disk_usage(folder).free
    return None


def means_full(error: Exception, place: Path) -> bool:
    """Tell whether an exception of a writer means that the disk of a path is full.

    Libraries report a short write without an errno (`ndarray.tofile`) or as an error class of their own: with next to
    no space left it is taken for what it is.
    """
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno in _SPACE
    free = free_bytes(place)
    return free is not None and free < FULL_BYTES


def means_forbidden(error: OSError, place: Path) -> bool:
    """Tell whether an exception says that a path, or something below it, may not be written."""
    if error.errno not in _PERMISSION:
        return False
    names = [os.fsdecode(name) for name in (error.filename, error.filename2) if isinstance(name, str | bytes)]
    return any(Path(name).is_relative_to(place) for name in names)


def full_disk(place: Path, written: int | None, needed: int | None) -> SpeccError:
    """Return SPC608 for a path, with the bytes that are known: written before it stopped, needed in all, free now."""
    free = free_bytes(place)
    facts = [
        f"{needed:,} bytes are needed" if needed is not None else "",
        f"{written:,} bytes had been written" if written is not None else "",
        f"{free:,} bytes are free" if free is not None else "",
    ]
    return SpeccError(
        "SPC608",
        str(place),
        ", ".join(fact for fact in facts if fact) or "no space is left",
        "the file could not be written whole; nothing partial is left behind",
        "free space (`specc cache gc` helps), or set SPECC_CACHE or --out to a larger disk, and run it again",
    )


@contextlib.contextmanager
def coded_failures(place: Path, needed: int | None = None) -> Iterator[None]:
    """Turn an OSError of the block, all of it specc's own file operations, into its coded error.

    Args:
        place: what is written or read.
        needed: bytes that the block writes, where that is known.
    """
    try:
        yield
    except OSError as error:
        raise failure_from_os_error(error, place, needed) from error


def failure_from_writer(error: Exception, folder: Path, needed: int | None) -> SpeccError | None:
    """Return the coded error of a stage that failed while writing into a folder; None when the disk is not to blame."""
    if means_full(error, folder):
        written = sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir())
        return full_disk(folder, written, needed)
    if isinstance(error, OSError) and (error.errno in _DEVICE or means_forbidden(error, folder)):
        return failure_from_os_error(error, folder)
    return None


def failure_from_os_error(error: OSError, place: Path, needed: int | None = None) -> SpeccError:
    """Return the coded error of a file operation: SPC608 no space, SPC609 no permission, SPC612 anything else."""
    if error.errno in _SPACE:  # a copy names its source, and the disk that is full is the other one
        return full_disk(place, None, needed)
    where = error.filename if isinstance(error.filename, str) else str(place)
    reason = error.strerror or str(error) or type(error).__name__
    if error.errno in _PERMISSION:
        return SpeccError(
            "SPC609",
            where,
            reason,
            "specc has to read its inputs and write its cache and its bundle",
            "change the permissions, or set SPECC_CACHE or --out to a folder you can write",
        )
    return SpeccError(
        "SPC612", where, reason, "the file system did not do what was asked", "check the disk and the path, and retry"
    )
