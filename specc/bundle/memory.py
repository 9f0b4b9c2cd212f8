"""Digests of files, remembered between runs: hashing 141 GB takes minutes, looking at five numbers does not.

A file is recognised by (device, inode, size, mtime_ns, ctime_ns). The memory is a text file of independent lines, each
with its own check sum: processes append to it under a lock, and a torn or damaged line is passed over. It is only ever
a saving: whatever is wrong with it, the files are read instead.

Lowering needs no digest of 141 GB, it needs to know whether a file is the one it saw: `identity` then gives a file that
was never read a name of its own, `pending-...`, which is carried over links like a digest and ends where one is known.
What is published never sees one.
"""

from __future__ import annotations

import contextlib
import os
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeAlias

from specc.bundle.digests import HashProgress, sha256_from_file, sha256_from_text
from specc.bundle.disk import files_below, remove_tree

FileState: TypeAlias = tuple[int, int, int, int, int]

KEEP_LINES: Final = 20_000
COMPACT_BYTES: Final = 8 << 20
FINE_NS: Final = 50_000_000  # the kernel's tick is 10 ms at most
COARSE_NS: Final = 2_000_000_000  # FAT keeps times in steps of two seconds
PENDING: Final = "pending-"
PENDING_BYTES: Final = 64 << 20  # reading less than this is not worth a name


class DigestMemory:
    """sha256 of files, from memory where the file is unchanged since it was read.

    Args:
        file: where the memory lies; None remembers within this object only.
        rehash: do not use what earlier runs remembered.
        progress: told about the bytes of files that have to be read.
    """

    def __init__(self, file: Path | None, rehash: bool = False, progress: HashProgress | None = None) -> None:
        self._file = file
        self._progress = progress
        self._rehash = rehash
        self._known: dict[FileState, str] = {}
        self._named: dict[FileState, str] = {}
        self._bytes_read = 0
        if file is not None:
            _compact(file)
        self._catch_up()

    def sha256(self, path: Path) -> str:
        """Return the sha256 of a file in hex, reading it only when it must be.

        A file that changed within the clock's granularity before it was read is not remembered: a further change in
        the same tick would leave all five numbers as they are.

        Raises:
            SpeccError: SPC612 it is not a regular file, or it changed while it was read.
            OSError: it cannot be read.
        """
        started = time.time_ns()
        state = file_state(path)
        known, _ = self._looked_up(state)
        if known is not None:
            return known
        digest = sha256_from_file(path, self._progress)
        if file_state(path) == state and not _is_racy(state, started):
            self._remember(state, digest)
        return digest

    def identity(self, path: Path) -> str:
        """Return a file's digest where it is known or the file is small, else the name that its content is given.

        Equal names mean what equal remembered digests mean: the file at this state. A file that may still be changing
        unseen gets a name that is never given again.

        Raises:
            SpeccError, OSError: as `sha256`.
        """
        started = time.time_ns()
        state = file_state(path)
        known, named = self._looked_up(state)
        if known is not None:
            return known
        if self._rehash or state[2] < PENDING_BYTES:
            return self.sha256(path)
        if named is None:
            racy = _is_racy(state, started)
            named = PENDING + (os.urandom(32).hex() if racy else sha256_from_text(" ".join(map(str, state))))
            if not racy:
                self._named[state] = named
                self._append(state, named)
        return named

    def pending(self, path: Path) -> str | None:
        """Return the name that `identity` gave a file; None where it gave none, or the digest is known by now."""
        known, named = self._looked_up(file_state(path))
        return None if known is not None else named

    def remember(self, path: Path, sha256: str) -> None:
        """Take note of the digest of a file that nobody else can have changed since, as one in a private folder."""
        self._remember(file_state(path), sha256)

    @contextlib.contextmanager
    def carried(self, path: Path) -> Iterator[None]:
        """Keep a file's digest over a link or an unlink in the block: they change its ctime but not its content."""
        with contextlib.ExitStack() as stack:
            try:
                file = stack.enter_context(path.open("rb", buffering=0))
            except OSError:
                yield
                return
            before = _state_from_stat(os.fstat(file.fileno()))
            yield
            after = _state_from_stat(os.fstat(file.fileno()))
            if after == before or after[:4] != before[:4]:
                return
            known, named = self._looked_up(before)
            if known is not None:
                self._remember(after, known)
            elif named is not None:
                self._named[after] = named
                self._append(after, named)

    def remove_tree(self, folder: Path) -> None:
        """Remove a folder as far as possible, keeping the digests of files that have other links."""
        if not folder.is_symlink() and folder.is_dir():
            for _, path in files_below(folder):
                with contextlib.suppress(OSError):
                    if path.lstat().st_nlink > 1:
                        with self.carried(path):
                            path.unlink()
        remove_tree(folder)

    def _looked_up(self, state: FileState) -> tuple[str | None, str | None]:
        """Return digest and name of a state; for a big unknown file, what others noted since is read first.

        Another process may have linked the file in the meantime, which changes its ctime.
        """
        if state[2] >= PENDING_BYTES and state not in self._known and state not in self._named:
            self._catch_up()
        return self._known.get(state), self._named.get(state)

    def _catch_up(self) -> None:
        """Read the lines that were not read yet."""
        if self._file is None or self._rehash:
            return
        try:
            with self._file.open("rb") as file:
                if os.fstat(file.fileno()).st_size < self._bytes_read:  # another process compacted it
                    self._bytes_read = 0
                file.seek(self._bytes_read)
                content = file.read()
        except OSError:
            return
        whole = content.rfind(b"\n") + 1
        self._bytes_read += whole
        for state, text in _entries_from_content(content[:whole]):
            (self._named if text.startswith(PENDING) else self._known)[state] = text

    def _remember(self, state: FileState, sha256: str) -> None:
        if self._known.get(state) == sha256:
            return
        self._known[state] = sha256
        self._append(state, sha256)

    def _append(self, state: FileState, text: str) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):
                _append_line(self._file, _line_from_entry(state, text))


def file_state(path: Path) -> FileState:
    """Return the five numbers a file is recognised by."""
    return _state_from_stat(path.stat())


def _state_from_stat(found: os.stat_result) -> FileState:
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _is_racy(state: FileState, started: int) -> bool:
    changed = max(state[3], state[4])
    granularity = COARSE_NS if state[3] % 1_000_000_000 == 0 else FINE_NS
    return started - changed < granularity


def _line_from_entry(state: FileState, sha256: str) -> bytes:
    text = f"{' '.join(map(str, state))} {sha256}"
    return f"{zlib.crc32(text.encode()):08x} {text}\n".encode()


def _entry_from_line(line: bytes) -> tuple[FileState, str] | None:
    check, _, text = line.partition(b" ")
    fields = text.split(b" ")
    if len(fields) != 6 or check != b"%08x" % zlib.crc32(text):
        return None
    try:
        device, inode, size, mtime, ctime = map(int, fields[:5])
        return (device, inode, size, mtime, ctime), fields[5].decode("ascii")
    except ValueError:
        return None


def _entries_from_content(content: bytes) -> list[tuple[FileState, str]]:
    return [entry for line in content.split(b"\n") if (entry := _entry_from_line(line)) is not None]


def _compact(file: Path) -> None:
    """Keep the newest lines of a file that has grown long."""
    with contextlib.suppress(OSError):
        if file.stat().st_size <= COMPACT_BYTES:
            return
        newest = list(dict(_entries_from_content(file.read_bytes())).items())[-KEEP_LINES:]
        partial = file.with_name(f"{file.name}.{os.urandom(8).hex()}")
        try:
            partial.write_bytes(b"".join(_line_from_entry(state, text) for state, text in newest))
            partial.replace(file)
        finally:
            partial.unlink(missing_ok=True)


def _append_line(file: Path, line: bytes) -> None:
    import fcntl

    handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        size = os.fstat(handle).st_size
        if size and os.pread(handle, 1, size - 1) != b"\n":  # an earlier process died within its line
            line = b"\n" + line
        os.write(handle, line)
    finally:
        os.close(handle)
