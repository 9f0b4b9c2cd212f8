"""engines.json: what the compile stage made in one folder, engines or a checkpoint, and where a bundle puts it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from specc.bundle.manifest import CheckpointSpec, EngineSpec
from specc.bundle.record import record_from_file, text_from_record

ENGINES_FILE: Final = "engines.json"
ENGINES_FOLDER: Final = "engines"


@dataclass(frozen=True)
class EngineList:
    """The whole of engines.json.

    Attributes:
        engines: of the folder.
        files: all files of it, relative to the folder.
        checkpoints: of the folder; their `folder` is that of the bundle.
        place: folder of the bundle that the files go to.
        timing_cache: digest of the timings that the builder chose kernels by; empty where it times nothing.
    """

    engines: tuple[EngineSpec, ...]
    files: tuple[str, ...]
    checkpoints: tuple[CheckpointSpec, ...] = ()
    place: str = ENGINES_FOLDER
    timing_cache: str = ""


def write_engine_list(engines: tuple[EngineSpec, ...], folder: Path, timing_cache: str = "") -> None:
    """Write the specs of the engines in a folder, the names of the files that lie there, and the timings' digest."""
    _write(EngineList(engines, _files(folder), timing_cache=timing_cache), folder)


def write_checkpoint_list(checkpoint: CheckpointSpec, folder: Path) -> None:
    """Write what the checkpoint in a folder is, and the names of the files that lie there."""
    _write(EngineList((), _files(folder), (checkpoint,), checkpoint.folder), folder)


def engines_in_folder(folder: Path) -> EngineList:
    """Read what one of these wrote."""
    return record_from_file(EngineList, folder / ENGINES_FILE)


def _files(folder: Path) -> tuple[str, ...]:
    return tuple(sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()))


def _write(made: EngineList, folder: Path) -> None:
    (folder / ENGINES_FILE).write_text(text_from_record(made), encoding="utf-8")
