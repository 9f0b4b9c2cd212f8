"""What a store holds, and removing what is not needed: old objects, and what killed processes left."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from specc.bundle.disk import files_below
from specc.bundle.flock import FileLock, try_lock
from specc.bundle.memory import DigestMemory
from specc.bundle.objects import OBJECT_FILE, ObjectRecord, StoreFolders
from specc.bundle.record import record_from_file
from specc.errors import SpeccError


@dataclass(frozen=True)
class StoreEntry:
    """One object, as `specc cache ls` shows it.

    Attributes:
        key: what it is found by.
        describe: what it is; None when its record is damaged.
        size: bytes of its files.
        freed: bytes that removing it gives back: files with links elsewhere, in a bundle say, give none.
        last_used: when it was made or last returned, seconds since the epoch.
    """

    key: str
    describe: str | None
    size: int
    freed: int
    last_used: float


def entries_in_store(folders: StoreFolders) -> tuple[StoreEntry, ...]:
    """Return every object, the least recently used first."""
    found = [
        path for path in sorted(folders.objects.glob("*/*")) if path == folders.object(path.name) and path.is_dir()
    ]
    entries = [_entry_from_folder(path) for path in found]
    return tuple(sorted(entries, key=lambda entry: entry.last_used))


def _entry_from_folder(folder: Path) -> StoreEntry:
    sizes = [(found.st_size, found.st_nlink) for found in _states(folder)]
    try:
        describe = record_from_file(ObjectRecord, folder / OBJECT_FILE).describe
        last_used = (folder / OBJECT_FILE).stat().st_mtime
    except (SpeccError, OSError):
        describe, last_used = None, 0.0
    total = sum(size for size, _ in sizes)
    return StoreEntry(folder.name, describe, total, sum(size for size, links in sizes if links == 1), last_used)


def _states(folder: Path) -> Iterator[os.stat_result]:
    for _, path in files_below(folder):
        with contextlib.suppress(OSError):  # another process may be removing it
            yield path.lstat()


def collect(folders: StoreFolders, digests: DigestMemory, keep_days: float | None, max_bytes: int | None) -> int:
    """Remove objects that were not used for long or are too much, never one that an open Store uses.

    Args:
        folders: the store.
        digests: keeps what is known of files with links elsewhere.
        keep_days: remove what was not used for so many days; None keeps any age.
        max_bytes: then remove the least recently used until the objects take no more than this; None keeps any amount.

    Returns:
        Bytes given back to the file system.

    Damaged objects, and what killed processes left, go in any case.
    """
    sweep(folders, digests)
    entries = entries_in_store(folders)
    total = sum(entry.size for entry in entries)
    oldest = None if keep_days is None else time.time() - keep_days * 86400
    freed = 0
    for entry in entries:
        unwanted = (
            entry.describe is None
            or (oldest is not None and entry.last_used < oldest)
            or (max_bytes is not None and total > max_bytes)
        )
        if unwanted and _removed(folders, entry.key, digests):
            total -= entry.size
            freed += entry.freed
    return freed


def _removed(folders: StoreFolders, key: str, digests: DigestMemory) -> bool:
    use = try_lock(folders.use_lock(key))
    if use is None:
        return False
    build: FileLock | None = None
    try:
        build = try_lock(folders.build_lock(key))
        if build is None:
            return False
        set_aside(folders, key, digests)
        return True
    finally:
        if build is not None:
            build.release(remove=True)
        use.release(remove=True)


def sweep(folders: StoreFolders, digests: DigestMemory) -> None:
    """Remove what killed processes left: staging folders whose build lock is free, and objects set aside."""
    with contextlib.suppress(OSError):
        for path in [*folders.aside.iterdir()]:
            digests.remove_tree(path)
        for path in [*folders.staging.iterdir()]:
            lock = try_lock(folders.build_lock(path.name.partition(".")[0]))
            if lock is not None:
                digests.remove_tree(path)
                lock.release(remove=True)


def set_aside(folders: StoreFolders, key: str, digests: DigestMemory) -> None:
    """Take an object out of the store in one step, then remove it."""
    aside = folders.aside / f"{key}.{os.urandom(8).hex()}"
    try:
        folders.object(key).rename(aside)
    except FileNotFoundError:
        return
    digests.remove_tree(aside)
