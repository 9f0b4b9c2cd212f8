"""recipe.lock.json: which files and tools a bundle was built from, so that `--locked` builds the same or nothing."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from specc.bundle.failures import coded_failures
from specc.bundle.memory import PENDING
from specc.bundle.record import record_from_file
from specc.errors import SpeccBug, SpeccError
from specc.version import __version__

LOCK_FILE: Final = "recipe.lock.json"
LOCK_SCHEMA: Final = 1

_NAMED: Final = 12  # differences that one error lists


@dataclass(frozen=True)
class LockedFile:
    """One file of a source: its name below the source's folder, sha256 in hex, size in bytes."""

    name: str
    sha256: str
    size: int


@dataclass(frozen=True)
class LockedSource:
    """One source of the recipe: as the recipe names it, the revision it was found at, its files."""

    uri: str
    revision: str | None
    files: tuple[LockedFile, ...]


@dataclass(frozen=True)
class RecipeLock:
    """The whole of recipe.lock.json.

    Attributes:
        schema: version of this form.
        specc_version: the specc that built.
        sources: by role in the recipe: `target`, `draft`, `tokenizer`.
        toolchain: library name to version.
        kernels: digest of the kernels of specc inside the engines; empty where there are none.
        timing_caches: by the role of an engine, digest of the timings that its builder chose kernels by.
    """

    schema: int
    specc_version: str
    sources: dict[str, LockedSource]
    toolchain: dict[str, str]
    kernels: str = ""
    timing_caches: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class SourceFiles:
    """A source that was found: its uri in the recipe, its revision if it has one, the files it consists of."""

    uri: str
    revision: str | None
    files: tuple[Path, ...]


def lock_from_sources(
    sources: Mapping[str, SourceFiles],
    toolchain: Mapping[str, str],
    digest_from_file: Callable[[Path], str],
    kernels: str = "",
) -> RecipeLock:
    """Return the lock of what a build is about to use.

    Args:
        sources: by role.
        toolchain: library name to version.
        digest_from_file: of `DigestMemory`: `sha256`, or `identity` where nothing is published.
        kernels: digest of specc's own kernels.

    Raises:
        SpeccError: SPC609 or SPC612 a file cannot be read.
    """
    locked = {role: _locked_source(source, digest_from_file) for role, source in sorted(sources.items())}
    return RecipeLock(LOCK_SCHEMA, __version__, locked, dict(sorted(toolchain.items())), kernels)


def pending_files(lock: RecipeLock) -> tuple[str, ...]:
    """Return the files of the sources whose digests are not known, by name."""
    return tuple(
        file.name for source in lock.sources.values() for file in source.files if file.sha256.startswith(PENDING)
    )


def read_lock(path: Path) -> RecipeLock:
    """Read a lock file.

    Raises:
        SpeccError: SPC611 there is none, SPC602 it is malformed, SPC603 it has another schema.
    """
    try:
        lock = record_from_file(RecipeLock, path)
    except SpeccError as error:
        if error.code != "SPC601":
            raise
        raise SpeccError(
            "SPC611",
            str(path),
            "there is no lock file here",
            "`--locked` builds what an earlier build recorded",
            f"build once without --locked and keep its {LOCK_FILE}",
        ) from None
    if lock.schema != LOCK_SCHEMA:
        raise SpeccError(
            "SPC603",
            f"{path} schema",
            f"the lock has schema {lock.schema}, this specc reads schema {LOCK_SCHEMA}",
            "fields of another version have other meanings",
            "build without --locked to write a new lock",
        )
    return lock


def check_lock(lock: RecipeLock, actual: RecipeLock, place: str = LOCK_FILE) -> None:
    """Hold what a build would use against what the lock records.

    Args:
        lock: what is required.
        actual: what was found.
        place: the lock file, as errors name it.

    Raises:
        SpeccError: SPC610 with every difference.
    """
    differences = list(_differences(lock, actual))
    if not differences:
        return
    more = len(differences) - _NAMED
    raise SpeccError(
        "SPC610",
        place,
        "; ".join(differences[:_NAMED]) + (f"; and {more} more" if more > 0 else ""),
        "--locked promises the same inputs as the recorded build",
        "restore the recorded files and versions, or build without --locked to write a new lock",
    )


def _locked_source(source: SourceFiles, digest_from_file: Callable[[Path], str]) -> LockedSource:
    if not source.files:
        raise SpeccBug(f"the source {source.uri} has no files")
    root = os.path.commonpath([path.absolute().parent for path in source.files])
    files = []
    for path in source.files:
        with coded_failures(path):
            name = path.absolute().relative_to(root).as_posix()
            files.append(LockedFile(name, digest_from_file(path), path.stat().st_size))
    return LockedSource(source.uri, source.revision, tuple(sorted(files, key=lambda file: file.name)))


def _differences(lock: RecipeLock, actual: RecipeLock) -> Iterator[str]:
    if lock.specc_version != actual.specc_version:
        yield f"specc is {actual.specc_version}, locked is {lock.specc_version}"
    yield from _table_differences("", lock.toolchain, actual.toolchain)
    if lock.kernels != actual.kernels:
        yield f"the kernels are {actual.kernels[:12] or 'absent'}, locked are {lock.kernels[:12] or 'none'}"
    for role in sorted({*lock.sources, *actual.sources}):
        here, there = actual.sources.get(role), lock.sources.get(role)
        if here is None or there is None:
            yield f"{role}: {'not in this recipe' if here is None else 'not in the lock'}"
            continue
        if here.uri != there.uri:
            yield f"{role}: the recipe names {here.uri}, locked is {there.uri}"
        if here.revision != there.revision:
            yield f"{role}: revision {here.revision}, locked is {there.revision}"
        yield from _table_differences(f"{role}: ", _shown_files(there), _shown_files(here))


def _table_differences(prefix: str, locked: Mapping[str, str], found: Mapping[str, str]) -> Iterator[str]:
    for name in sorted({*locked, *found}):
        if locked.get(name) != found.get(name):
            yield f"{prefix}{name} is {found.get(name, 'absent')}, locked is {locked.get(name, 'absent')}"


def _shown_files(source: LockedSource) -> dict[str, str]:
    return {file.name: f"sha256 {file.sha256} ({file.size:,} bytes)" for file in source.files}
