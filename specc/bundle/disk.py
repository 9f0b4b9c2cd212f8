"""The few file system operations that atomic publishing is made of."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from specc.bundle.failures import coded_failures

AT_FDCWD: Final = -100
RENAME_EXCHANGE: Final = 2

_NO_EXCHANGE: Final = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EPERM})


def sync_file(path: Path) -> None:
    """Wait until a file's content, or a folder's entries, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if not (path.is_dir() and error.errno in (errno.EINVAL, errno.EBADF)):  # some file systems cannot sync folders
            raise
    finally:
        os.close(handle)


def sync_tree(folder: Path) -> None:
    """Wait until everything below a folder, and the folder itself, is on the disk."""
    for root, _, names in os.walk(folder, topdown=False):
        for name in names:
            path = Path(root, name)
            if not path.is_symlink():
                sync_file(path)
        sync_file(Path(root))


def files_below(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield (name relative to the folder with `/`, path) of everything below it that is not a folder, sorted by name.

    A symbolic link is yielded as itself, also one that leads to a folder.
    """
    found = []
    for root, folders, names in os.walk(folder):
        linked = [name for name in folders if Path(root, name).is_symlink()]
        found += [Path(root, name) for name in [*names, *linked]]
    yield from sorted((path.relative_to(folder).as_posix(), path) for path in found)


def is_regular(path: Path) -> bool:
    """Tell whether a path is a regular file itself, not through a symbolic link."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def remove_tree(folder: Path) -> None:
    """Remove a folder as far as possible; what is left lies under a hidden name, where the next sweep finds it."""
    shutil.rmtree(folder, ignore_errors=True)


def exchange(first: Path, second: Path) -> bool:
    """Swap two existing paths in one atomic step; False where the system or the file system cannot (nothing happened).

    Source: renameat2(2), RENAME_EXCHANGE, Linux 3.15, glibc 2.28.
    """
    import ctypes

    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):  # another libc, or not Linux
        return False
    if renameat2(AT_FDCWD, os.fsencode(first), AT_FDCWD, os.fsencode(second), RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _NO_EXCHANGE:
        return False
    raise OSError(number, os.strerror(number), str(first), None, str(second))


def replace_text(path: Path, text: str) -> None:
    """Write a file so that a reader sees the old text or the new one, whole.

    Raises:
        SpeccError: SPC608, SPC609 or SPC612.
    """
    partial = path.with_name(f".{path.name}.{os.urandom(8).hex()}.part")
    try:
        with coded_failures(path):
            partial.write_text(text, encoding="utf-8")
            sync_file(partial)
            partial.replace(path)
            sync_file(path.parent)
    finally:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
