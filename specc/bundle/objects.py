"""How a store is laid out on the disk, and the record of one object.

    objects/<2 hex>/<key>/   the files and object.json; it appears by one rename, after everything is on the disk
    staging/<key>.<token>/   an object being made, by the holder of its build lock
    aside/                   damaged or collected objects on their way out
    locks/<key>.build        held exclusively while the object is made
    locks/<key>.use          shared by every open Store that returned the object; collecting needs it exclusively
    labels/<label>           the digest of the newest version of a file that builds add to, see `growing.py`
    locks/<label>.label      held exclusively while a version is added
    digests                  remembered digests

Locks end with their process, so whatever lies in staging under a free lock was abandoned.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from specc.bundle.manifest import FileSpec
from specc.errors import SpeccError

OBJECT_FILE: Final = "object.json"
OBJECT_SCHEMA: Final = 1


@dataclass(frozen=True)
class ObjectRecord:
    """The whole of object.json.

    Attributes:
        schema: version of this form.
        key: what the object is found by.
        describe: what it is, for people.
        created: when it was made, ISO 8601 in UTC.
        files: every other file of the object.
    """

    schema: int
    key: str
    describe: str
    created: str
    files: dict[str, FileSpec]


@dataclass(frozen=True)
class StoreFolders:
    """Where things lie below the root of a store."""

    root: Path

    @property
    def all(self) -> tuple[Path, ...]:
        """Every folder that a store has from the beginning."""
        return self.objects, self.staging, self.aside, self.labels, self.locks

    @property
    def digests(self) -> Path:
        """Remembered digests."""
        return self.root / "digests"

    @property
    def objects(self) -> Path:
        """Finished objects."""
        return self.root / "objects"

    @property
    def staging(self) -> Path:
        """Objects being made."""
        return self.root / "staging"

    @property
    def aside(self) -> Path:
        """Objects on their way out."""
        return self.root / "aside"

    @property
    def labels(self) -> Path:
        """Newest versions of files that builds add to."""
        return self.root / "labels"

    @property
    def locks(self) -> Path:
        """Lock files."""
        return self.root / "locks"

    def object(self, key: str) -> Path:
        """Where the object of a key lies when it is finished."""
        return self.objects / key[:2] / key

    def build_lock(self, key: str) -> Path:
        """Held exclusively by whoever makes the object."""
        return self.locks / f"{key}.build"

    def use_lock(self, key: str) -> Path:
        """Shared by whoever uses the object."""
        return self.locks / f"{key}.use"

    def label_lock(self, label: str) -> Path:
        """Held exclusively by whoever adds a version."""
        return self.locks / f"{label}.label"


def cache_folder() -> Path:
    """Return the store's folder: $SPECC_CACHE, else $XDG_CACHE_HOME/specc, else ~/.cache/specc.

    Raises:
        SpeccError: SPC609 the user has no home folder.
    """
    chosen = os.environ.get("SPECC_CACHE", "")
    if chosen:
        return Path(chosen).expanduser().absolute()
    shared = os.environ.get("XDG_CACHE_HOME", "")
    if shared and Path(shared).is_absolute():  # a relative one is to be ignored, says the XDG specification
        return Path(shared) / "specc"
    try:
        return Path.home() / ".cache" / "specc"
    except RuntimeError:
        raise SpeccError(
            "SPC609",
            "~/.cache/specc",
            "this user has no home folder",
            "the cache has to lie somewhere",
            "set SPECC_CACHE",
        ) from None
