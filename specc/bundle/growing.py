"""A file of the store that builds add to, as the timings of kernels: each version is an object, a label names one.

Objects never change, so a build that names a version by its digest finds the same bytes later, or none.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Final

from specc.bundle.digests import key_from_parts
from specc.bundle.disk import replace_text
from specc.bundle.failures import coded_failures
from specc.bundle.flock import wait_lock
from specc.bundle.store import Store

CONTENT_FILE: Final = "content"


class GrowingFile:
    """The versions of one file.

    Args:
        store: keeps them.
        label: of the file, from `key_from_parts`.
        describe: what it is, for `specc cache ls`.
    """

    def __init__(self, store: Store, label: str, describe: str) -> None:
        self._store = store
        self._label = store.folders.labels / label
        self._describe = describe

    def newest(self) -> bytes | None:
        """Return the version that was added last; None where there is none, or where it was collected or damaged."""
        with coded_failures(self._label):
            if not self._label.is_file():
                return None
            return self.version(self._label.read_text(encoding="utf-8").strip())

    def version(self, sha256: str) -> bytes | None:
        """Return the version of a digest; None where the store does not hold it."""
        folder = self._store.find(_key(sha256))
        if folder is None:
            return None
        with coded_failures(folder):
            return (folder / CONTENT_FILE).read_bytes()

    def grow(self, merged: Callable[[bytes | None], bytes]) -> str:
        """Make a new version of the newest one, with nobody else doing so meanwhile, and return its digest.

        Args:
            merged: given the newest version, returns the new one.

        Raises:
            SpeccError: SPC608, SPC609 or SPC612.
        """
        with coded_failures(self._label):
            lock = wait_lock(self._store.folders.label_lock(self._label.name))
        with lock:
            content = merged(self.newest())
            sha256 = hashlib.sha256(content).hexdigest()

            def produce(folder: Path) -> None:
                (folder / CONTENT_FILE).write_bytes(content)

            self._store.obtain(_key(sha256), produce, self._describe, len(content))
            replace_text(self._label, f"{sha256}\n")
        return sha256


def _key(sha256: str) -> str:
    return key_from_parts({"content": sha256})
