"""The content-addressed store: what is made from given inputs is made once, whole, and found again by its key."""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import re
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from specc.bundle.collect import StoreEntry, collect, entries_in_store, set_aside, sweep
from specc.bundle.digests import HashProgress
from specc.bundle.disk import files_below, is_regular, sync_file, sync_tree
from specc.bundle.failures import coded_failures, failure_from_writer, free_bytes, full_disk
from specc.bundle.flock import FileLock, wait_lock
from specc.bundle.manifest import FileSpec
from specc.bundle.memory import PENDING, DigestMemory
from specc.bundle.objects import OBJECT_FILE, OBJECT_SCHEMA, ObjectRecord, StoreFolders, cache_folder
from specc.bundle.place import LINK_BYTES, place_file
from specc.bundle.record import record_from_file, text_from_record
from specc.errors import SpeccBug, SpeccError

_KEY: Final = re.compile(r"[0-9a-f]{64}")


class Store:
    """An opened store. The objects it returned stay in use, safe from collection, until it is closed.

    Args:
        root: the store's folder; None takes `cache_folder()`.
        rehash: read every file instead of trusting remembered digests.
        on_wait: told what another process is building when this one has to wait for it.
        progress: told about the bytes of files that have to be read.

    Raises:
        SpeccError: SPC608, SPC609, SPC612 the folder cannot be made or written.
    """

    def __init__(
        self,
        root: Path | None = None,
        rehash: bool = False,
        on_wait: Callable[[str], None] | None = None,
        progress: HashProgress | None = None,
    ) -> None:
        self.folders = StoreFolders(cache_folder() if root is None else root.absolute())
        self._on_wait = on_wait
        self._used: dict[str, FileLock] = {}
        self._making: dict[str, int] = {}
        self._guard = threading.Lock()
        with coded_failures(self.folders.root):
            for folder in self.folders.all:
                folder.mkdir(parents=True, exist_ok=True)
        self.digests = DigestMemory(self.folders.digests, rehash, progress)
        sweep(self.folders, self.digests)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the objects: from now on they may be collected."""
        for lock in self._used.values():
            lock.release()
        self._used.clear()

    def obtain(self, key: str, produce: Callable[[Path], None], describe: str, needs_bytes: int | None = None) -> Path:
        """Return the folder of the object of a key, making the object if it is not there or damaged.

        Args:
            key: from `key_from_parts`; it must hold everything that decides the content.
            produce: writes the object's files into the empty folder it is given, on the store's file system. Hard
                links to other files are fine; symbolic links are not.
            describe: what the object is, for messages and `specc cache ls`.
            needs_bytes: about how much produce will write, where that is known: refused beforehand when it cannot fit.

        Returns:
            The folder, read-only by intent: files and object.json.

        Raises:
            SpeccError: SPC608 the disk is full, SPC609 no permission, SPC612; or what produce raised.
        """
        if _KEY.fullmatch(key) is None:
            raise SpeccBug(f"not a key of the store: {key!r}")
        if self._making.get(key) == threading.get_ident():
            raise SpeccBug(f"{describe}: making object {key} needs object {key}")
        with coded_failures(self.folders.root):
            with self._guard:
                if key not in self._used:
                    self._used[key] = wait_lock(self.folders.use_lock(key), shared=True)
            found = self._whole(key)
        if found is not None:
            return found
        with coded_failures(self.folders.root):
            lock = wait_lock(self.folders.build_lock(key), on_wait=lambda: self._say_waiting(describe))
        try:
            with coded_failures(self.folders.root):
                found = self._whole(key)
                if found is not None:
                    return found
                set_aside(self.folders, key, self.digests)
            self._making[key] = threading.get_ident()
            return self._make(key, produce, describe, needs_bytes)
        finally:
            self._making.pop(key, None)
            lock.release(remove=True)

    def find(self, key: str) -> Path | None:
        """Return the folder of the object of a key, as `obtain` does; None where it is not there, or damaged.

        Raises:
            SpeccError: SPC609 or SPC612.
        """
        with coded_failures(self.folders.root):
            if not self.folders.object(key).is_dir():
                return None
            with self._guard:
                if key not in self._used:
                    self._used[key] = wait_lock(self.folders.use_lock(key), shared=True)
            return self._whole(key)

    def files(self, key: str) -> dict[str, FileSpec]:
        """Return size and digest of every file of an object that `obtain` returned, by name."""
        return record_from_file(ObjectRecord, self.folders.object(key) / OBJECT_FILE).files

    def place(self, source: Path, destination: Path, link_bytes: int = LINK_BYTES) -> None:
        """Put a file of an object, or a source file, at another path; see `specc.bundle.place.place_file`.

        Raises:
            SpeccError: SPC608, SPC609 or SPC612.
        """
        place_file(source, destination, self.digests, link_bytes)

    def entries(self) -> tuple[StoreEntry, ...]:
        """Return every object of the store, the least recently used first."""
        return entries_in_store(self.folders)

    def collect(self, keep_days: float | None, max_bytes: int | None) -> int:
        """Remove objects and return the bytes freed; see `specc.bundle.collect.collect`.

        Raises:
            SpeccError: SPC609 or SPC612.
        """
        with coded_failures(self.folders.root):
            return collect(self.folders, self.digests, keep_days, max_bytes)

    def _say_waiting(self, describe: str) -> None:
        if self._on_wait is not None:
            self._on_wait(describe)

    def _whole(self, key: str) -> Path | None:
        folder = self.folders.object(key)
        try:
            record = record_from_file(ObjectRecord, folder / OBJECT_FILE)
        except SpeccError:
            return None
        if record.schema != OBJECT_SCHEMA or record.key != key:
            return None
        for name, spec in record.files.items():
            try:
                if not self._holds(folder / name, spec):
                    return None
            except (OSError, SpeccError):  # unreadable is as good as lost
                return None
        with contextlib.suppress(OSError):  # last used, for collection
            os.utime(folder / OBJECT_FILE)
        return folder

    def _holds(self, path: Path, spec: FileSpec) -> bool:
        if not is_regular(path) or path.stat().st_size != spec.size:
            return False
        known = self.digests.identity if spec.sha256.startswith(PENDING) else self.digests.sha256
        return known(path) == spec.sha256

    def _make(self, key: str, produce: Callable[[Path], None], describe: str, needs_bytes: int | None) -> Path:
        free = free_bytes(self.folders.root)
        if needs_bytes is not None and free is not None and free < needs_bytes:
            raise full_disk(self.folders.root, None, needs_bytes)
        staging = self.folders.staging / f"{key}.{os.urandom(8).hex()}"
        try:
            with coded_failures(self.folders.root):
                staging.mkdir()
            try:
                produce(staging)
            except SpeccError:
                raise
            except Exception as error:
                failure = failure_from_writer(error, staging, needs_bytes)
                if failure is None:
                    raise
                raise failure from error
            with coded_failures(self.folders.root):
                self._seal(key, staging, describe)
                return self._finish(key, staging)
        finally:
            self.digests.remove_tree(staging)

    def _seal(self, key: str, staging: Path, describe: str) -> None:
        files = {}
        for name, path in files_below(staging):
            if not is_regular(path):
                raise SpeccBug(f"{describe}: the object holds {name}, which is not a regular file")
            if name == OBJECT_FILE:
                raise SpeccBug(f"{describe}: the object holds a file named {OBJECT_FILE}")
            found = path.stat()
            if found.st_nlink == 1:  # a linked file belongs to someone else, who may want to write it
                path.chmod(0o444)
            digest = self.digests.pending(path) or self.digests.sha256(path)
            if found.st_nlink == 1:
                self.digests.remember(path, digest)
            files[name] = FileSpec(digest, found.st_size)
        created = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
        record = ObjectRecord(OBJECT_SCHEMA, key, describe, created, files)
        (staging / OBJECT_FILE).write_text(text_from_record(record), encoding="utf-8")
        sync_tree(staging)

    def _finish(self, key: str, staging: Path) -> Path:
        folder = self.folders.object(key)
        folder.parent.mkdir(exist_ok=True)
        staging.rename(folder)
        sync_file(folder.parent)
        sync_file(folder.parent.parent)
        return folder
