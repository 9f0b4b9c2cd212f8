"""How a stage puts a file that another stage made into its own folder."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

# (file, its new path, which does not exist): the new path holds the same content afterwards.
Place: TypeAlias = Callable[[Path, Path], None]


def link_or_copy(source: Path, target: Path) -> None:
    """Make a hard link where the file system allows, else a copy.

    ONNX Runtime refuses external data whose real path leaves the model's folder, so a symbolic link would not do; a
    snapshot of a hub cache consists of them, hence links are resolved first.

    Raises:
        OSError: neither is possible.
    """
    try:
        os.link(source.resolve(), target)
    except OSError:
        shutil.copyfile(source, target)
