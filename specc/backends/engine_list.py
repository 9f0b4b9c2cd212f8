"""engines.json: the specs of the engines of one folder, as the compile stage leaves them beside the engines."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from specc.bundle.manifest import EngineSpec
from specc.bundle.record import record_from_file, text_from_record

ENGINES_FILE: Final = "engines.json"


@dataclass(frozen=True)
class EngineList:
    """The whole of engines.json; `files` are all files of the engines, relative to the folder."""

    engines: tuple[EngineSpec, ...]
    files: tuple[str, ...]


def write_engine_list(engines: tuple[EngineSpec, ...], folder: Path) -> None:
    """Write the specs of the engines in a folder, and the names of the files that lie there."""
    files = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    (folder / ENGINES_FILE).write_text(text_from_record(EngineList(engines, tuple(files))), encoding="utf-8")


def engines_in_folder(folder: Path) -> EngineList:
    """Read what `write_engine_list` wrote."""
    return record_from_file(EngineList, folder / ENGINES_FILE)
