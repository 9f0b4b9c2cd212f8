"""Putting a file of the store, or of a source checkpoint, at another path: a copy if it is small, a hard link if big.

A hard link shares its content with the store: whoever edits one, edits both. So the files that people do edit (text,
graphs, tokenizers) are copied, and only big ones, in practice weights and engines, are linked; the store makes these
read-only (0444), so that an editor says so first. A change that gets through all the same shows in the file's times,
and the store builds that object again. The same holds for source checkpoints whose files are linked into a bundle:
replacing such a file is safe, overwriting it in place damages the bundle, and `specc verify` says so.
"""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Final

from specc.bundle.failures import coded_failures
from specc.bundle.memory import DigestMemory

LINK_BYTES: Final = 64 << 20  # copying this much takes about 50 ms; nobody edits a file of this size by hand

_NO_LINK: Final = frozenset({errno.EXDEV, errno.EPERM, errno.EACCES, errno.EMLINK, errno.ENOTSUP, errno.ENOSYS})


def place_file(source: Path, destination: Path, digests: DigestMemory, link_bytes: int = LINK_BYTES) -> None:
    """Put a file at a path that does not exist yet, making its folders.

    Args:
        source: the file; a symbolic link is followed.
        destination: where it is to be.
        digests: keeps what is known of the source although a link changes its ctime.
        link_bytes: files of at least this size are hard-linked where the file system can; 0 links every file.

    Raises:
        SpeccError: SPC608, SPC609 or SPC612.
    """
    with coded_failures(destination):
        source = source.resolve(strict=True)
        destination.parent.mkdir(parents=True, exist_ok=True)
        size = source.stat().st_size
        if size >= link_bytes and _linked(source, destination, digests):
            return
    with coded_failures(destination, size):
        shutil.copyfile(source, destination)


def _linked(source: Path, destination: Path, digests: DigestMemory) -> bool:
    try:
        with digests.carried(source):
            os.link(source, destination)
    except OSError as error:
        if error.errno in _NO_LINK:
            return False
        raise
    return True
