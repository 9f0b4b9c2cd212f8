"""Locks between processes: they end with the process that holds them, so there is no stale lock to recover."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from specc.errors import SpeccError


class FileLock:
    """flock(2) on a small file beside what it guards.

    As a context manager it is released at the end, and the file of an exclusive lock is removed.

    The file may be removed by the holder. Whoever then locks the removed file notices that the path leads elsewhere
    and starts over, so two holders never guard the same path through two files.
    """

    def __init__(self, path: Path, handle: int, shared: bool) -> None:
        self.path = path
        self._shared = shared
        self._handle = handle

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release(remove=not self._shared)

    def release(self, remove: bool = False) -> None:
        """Let go; with `remove` the file goes too, which only the holder of an exclusive lock may ask for."""
        if self._handle < 0:
            return
        if remove:
            with contextlib.suppress(OSError):
                self.path.unlink(missing_ok=True)
        os.close(self._handle)
        self._handle = -1


def try_lock(path: Path, shared: bool = False) -> FileLock | None:
    """Return the lock, or None when another holder is in the way.

    Raises:
        SpeccError: SPC612 the file system has no locks.
        OSError: the lock file cannot be made.
    """
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            return None
        except OSError as error:
            os.close(handle)
            raise _no_locks(path, error) from error
        if _still_there(path, handle):
            return FileLock(path, handle, shared)
        os.close(handle)


def wait_lock(path: Path, shared: bool = False, on_wait: Callable[[], None] | None = None) -> FileLock:
    """Return the lock as soon as no other holder is in the way; `on_wait` is called once before waiting."""
    while True:
        lock = try_lock(path, shared)
        if lock is not None:
            return lock
        if on_wait is not None:
            on_wait()
            on_wait = None
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        except BaseException:
            os.close(handle)
            raise
        if _still_there(path, handle):
            return FileLock(path, handle, shared)
        os.close(handle)


def _still_there(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(handle))
    except FileNotFoundError:
        return False


def _no_locks(path: Path, error: OSError) -> SpeccError:
    return SpeccError(
        "SPC612",
        str(path),
        f"the file cannot be locked: {error.strerror}",
        "locks keep two builds from writing the same thing; some network file systems lack them",
        "set SPECC_CACHE and --out to folders on a local disk",
    )
