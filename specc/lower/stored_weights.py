"""Where each weight lies as external data: in the source's own file where its bytes serve, else written once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from specc.bundle.manifest import TensorDtype
from specc.checkpoint.source import SourceCheckpoint, TensorHeader
from specc.errors import SpeccError
from specc.graph.builder import DATA_TYPES, WeightDtype
from specc.lower.float16_range import beyond_float16, check_float16_range, fits_float16
from specc.lower.place import Place
from specc.lower.safetensors_file import FileTensor, write_safetensors
from specc.progress import Progress

WRITTEN_FILE: Final = "weights.safetensors"
QUANTIZED_FILE: Final = "quantized.safetensors"
CACHE_SCALES_FILE: Final = "cache_scales.safetensors"
PLAIN: Final[dict[str, Literal["f32", "f16", "bf16"]]] = {"f32": "f32", "f16": "f16", "bf16": "bf16"}


@dataclass(frozen=True)
class StoredWeight:
    """One weight as external data.

    Attributes:
        file: relative to the graphs' folder, a plain name.
        offset: first byte in the file.
        nbytes: bytes.
        dtype: as stored; a Cast follows where it is not the graph's.
        shape: of the initializer.
    """

    file: str
    offset: int
    nbytes: int
    dtype: WeightDtype
    shape: tuple[int, ...]


def stored_weights(
    source: SourceCheckpoint,
    shapes: Mapping[str, tuple[int, ...]],
    *,
    dtype: TensorDtype,
    folder: Path,
    place: Place,
    progress: Progress,
) -> dict[str, StoredWeight]:
    """Return where every weight lies, after placing the source's files and writing the rest.

    Args:
        source: opened checkpoint.
        shapes: shape of each weight by canonical name.
        dtype: of what is written.
        folder: receives the source's files and `weights.safetensors`.
        place: puts a source's file there.
        progress: told the bytes written.

    Raises:
        SpeccError: SPC401 the checkpoint lacks a weight, SPC402 a weight has another shape, SPC403 the disk refuses,
            SPC404 a value does not fit float16; or what `place` raises.
    """
    kept, rest = split_headers(source, shapes)
    weights = [*kept.values(), *rest.values()]
    if dtype == "f16":
        check_float16_range(source, kept.values(), weights)
    try:
        files = placed_files((header.file for header in kept.values()), folder, place)
        stored = {
            name: StoredWeight(files[h.file], h.offset, h.nbytes, PLAIN[h.encoding], tuple(h.shape))
            for name, h in kept.items()
        }
        stored |= written_tensors(
            folder / WRITTEN_FILE, [_entry(source, name, dtype, weights) for name in rest], progress
        )
    except OSError as error:
        raise refused_by_disk(folder, error) from error
    return stored


def split_headers(
    source: SourceCheckpoint, shapes: Mapping[str, tuple[int, ...]]
) -> tuple[dict[str, TensorHeader], dict[str, TensorHeader]]:
    """Return the weights that may stay in their source's file, and those that must be written.

    A file stays when more than half of it serves: linking a whole block-quantized file for its norms would not pay.

    Raises:
        SpeccError: SPC401 the checkpoint lacks a weight, SPC402 a weight has another shape.
    """
    headers = {name: checked_header(source, name, shape) for name, shape in shapes.items()}
    plain = {name: header for name, header in headers.items() if header.plain and header.encoding in PLAIN}
    serving: Counter[Path] = Counter()
    for header in plain.values():
        serving[header.file] += header.nbytes
    kept = {name: header for name, header in plain.items() if 2 * serving[header.file] > header.file.stat().st_size}
    return kept, {name: header for name, header in headers.items() if name not in kept}


def placed_files(files: Iterable[Path], folder: Path, place: Place) -> dict[Path, str]:
    """Put files into a folder and return the plain name of each there; equal names of different files are numbered."""
    names: dict[Path, str] = {}
    for file in files:
        if file not in names:
            taken = {*names.values(), WRITTEN_FILE, QUANTIZED_FILE, CACHE_SCALES_FILE}
            name = file.name if file.name not in taken else f"{len(names)}-{file.name}"
            names[file] = name
            place(file, folder / name)
    return names


def written_tensors(path: Path, entries: list[FileTensor], progress: Progress) -> dict[str, StoredWeight]:
    """Write a safetensors file, one tensor in memory at a time, and return where each lies; without any, no file."""
    if not entries:
        return {}
    offsets = write_safetensors(path, entries, progress)
    return {
        entry.name: StoredWeight(path.name, offsets[entry.name], entry.nbytes, entry.dtype, entry.shape)
        for entry in entries
    }


def refused_by_disk(folder: Path, error: OSError) -> SpeccError:
    """Return SPC403 for an error of the file system."""
    return SpeccError(
        "SPC403",
        str(folder),
        f"The weights cannot be written: {error.strerror or error}.",
        "Engines read their weights from files beside the graph.",
        "Free space on that disk, or build elsewhere with `--out DIR`.",
    )


def checked_header(source: SourceCheckpoint, name: str, shape: tuple[int, ...]) -> TensorHeader:
    """Return the header of a weight.

    Raises:
        SpeccError: SPC401 the checkpoint lacks it, SPC402 it has another shape.
    """
    header = source.headers.get(name)
    if header is None:
        raise SpeccError(
            "SPC401",
            f"{source.uri} {name}",
            f"The checkpoint has no tensor `{name}`; it has {len(source.headers)} others.",
            "The graph of its architecture needs that weight.",
            "Take a complete checkpoint, or correct the configuration if it is of another architecture.",
        )
    if tuple(header.shape) != shape:
        raise SpeccError(
            "SPC402",
            f"{source.uri} {name}",
            f"The tensor `{name}` has shape {list(header.shape)}; the configuration implies {list(shape)}.",
            "Graph shapes come from the configuration, and the weights must have them.",
            "Correct the sizes in the configuration, or take the checkpoint it belongs to.",
        )
    return header


def _entry(source: SourceCheckpoint, name: str, dtype: TensorDtype, weights: list[TensorHeader]) -> FileTensor:
    shape = tuple(source.headers[name].shape)
    return FileTensor(name, dtype, shape, lambda: _encoded(source, name, dtype, weights))


def _encoded(source: SourceCheckpoint, name: str, dtype: TensorDtype, weights: list[TensorHeader]) -> bytes:
    values = source.read_float32(name)
    if dtype == "f16" and not fits_float16(values):
        raise beyond_float16(source, weights)
    return values.astype(DATA_TYPES[dtype].numpy()).tobytes()
