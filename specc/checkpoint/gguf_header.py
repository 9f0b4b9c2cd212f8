"""The header of a GGUF file: metadata and where each tensor lies.

Read here and not by the gguf package's reader, which takes seconds for a vocabulary, and trusts counts and offsets.
Sizes of block encodings are that package's.

Source: the GGUF specification, versions 2 and 3, little-endian.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from specc.checkpoint.gguf_cursor import Cursor, GgufValue, damaged_gguf
from specc.checkpoint.values import shortened
from specc.errors import SpeccError

MAGIC: Final = b"GGUF"
VERSIONS: Final = (2, 3)
DEFAULT_ALIGNMENT: Final = 32
MAX_ALIGNMENT: Final = 1 << 16
MAX_KEYS: Final = 65536
MAX_TENSORS: Final = 1 << 20
MAX_DIMENSIONS: Final = 4
MAX_DIMENSION: Final = 1 << 40


@dataclass(frozen=True)
class EncodingSize:
    """A tensor encoding: its name in lower case, elements per block and bytes per block."""

    name: str
    elements: int
    nbytes: int


@dataclass(frozen=True)
class GgufTensor:
    """One tensor: shape is row-major, [out, in] for a matrix; offset counts from the data's start, then the file's."""

    name: str
    shape: tuple[int, ...]
    encoding: str
    offset: int
    nbytes: int


@dataclass(frozen=True)
class GgufHeader:
    """Everything before the tensors' bytes; tensors are in order of their offsets."""

    path: Path
    metadata: Mapping[str, GgufValue]
    tensors: tuple[GgufTensor, ...]


def header_from_gguf(path: Path, encodings: Mapping[int, EncodingSize]) -> GgufHeader:
    """Return the header of a GGUF file, checked: no tensor overlaps another or passes the end of the file.

    Args:
        path: the file, absolute; symbolic links are resolved.
        encodings: what tensor type numbers mean.

    Raises:
        SpeccError: SPC206 the file cannot be read, SPC230 the header is damaged.
    """
    path = path.resolve()
    try:
        with path.open("rb") as file:
            if path.stat().st_size < 24:
                raise damaged_gguf(path, f"the file has only {path.stat().st_size} bytes")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return _header_from_bytes(path, data, encodings)
    except OSError as error:
        raise SpeccError(
            "SPC206",
            str(path),
            error.strerror or type(error).__name__,
            "it holds the model",
            "restore the file or its permissions",
        ) from None


def _header_from_bytes(path: Path, data: mmap.mmap, encodings: Mapping[int, EncodingSize]) -> GgufHeader:
    cursor = Cursor(path, data)
    if data[:4] != MAGIC:
        raise damaged_gguf(path, f"it begins with {data[:4]!r}, not with {MAGIC!r}")
    cursor.offset = 4
    version = int(cursor.scalar("I"))
    if version not in VERSIONS:
        swapped = int.from_bytes(version.to_bytes(4, "little"), "big") in VERSIONS
        raise damaged_gguf(
            path,
            f"GGUF version {version}{' (a big-endian file)' if swapped else ''}; specc reads little-endian 2 and 3",
        )
    tensor_count = cursor.count("Q", min(MAX_TENSORS, len(data) // 32), "the number of tensors")
    key_count = cursor.count("Q", min(MAX_KEYS, len(data) // 13), "the number of metadata keys")
    metadata: dict[str, GgufValue] = {}
    for _ in range(key_count):
        key = cursor.string()
        if key in metadata:
            raise cursor.damaged(f"the key {shortened(key)} stands twice")
        metadata[key] = cursor.value()
    listed = [_listed_tensor(cursor, encodings) for _ in range(tensor_count)]
    alignment = metadata.get("general.alignment", DEFAULT_ALIGNMENT)
    power_of_two = isinstance(alignment, int) and 0 < alignment <= MAX_ALIGNMENT and alignment & (alignment - 1) == 0
    if isinstance(alignment, bool) or not isinstance(alignment, int) or not power_of_two:
        raise damaged_gguf(path, f"general.alignment is {shortened(alignment)}, not a power of two")
    start = -(-cursor.offset // alignment) * alignment
    return GgufHeader(path, metadata, _placed(path, listed, start, alignment, len(data)))


def _listed_tensor(cursor: Cursor, encodings: Mapping[int, EncodingSize]) -> GgufTensor:
    name = cursor.string()
    dimensions = cursor.count("I", MAX_DIMENSIONS, f"the number of dimensions of {shortened(name)}")
    sizes = [cursor.count("Q", MAX_DIMENSION, f"a dimension of {shortened(name)}") for _ in range(dimensions)]
    kind, offset = int(cursor.scalar("I")), int(cursor.scalar("Q"))
    encoding = encodings.get(kind)
    if encoding is None:
        raise cursor.damaged(f"tensor {shortened(name)} has the unknown encoding number {kind}")
    if not sizes or 0 in sizes or sizes[0] % encoding.elements:
        raise cursor.damaged(
            f"tensor {shortened(name)} has sizes {sizes}; {encoding.name} stores rows in blocks of {encoding.elements}"
        )
    nbytes = math.prod(sizes) // encoding.elements * encoding.nbytes
    # the format lists the fastest dimension first
    return GgufTensor(name, tuple(reversed(sizes)), encoding.name, offset, nbytes)


def _placed(path: Path, listed: list[GgufTensor], start: int, alignment: int, size: int) -> tuple[GgufTensor, ...]:
    """Return the tensors with absolute offsets, in file order."""
    names: set[str] = set()
    placed: list[GgufTensor] = []
    end = start
    for tensor in sorted(listed, key=lambda tensor: tensor.offset):
        place, name = start + tensor.offset, shortened(tensor.name)
        if tensor.name in names:
            raise damaged_gguf(path, f"tensor {name} stands twice")
        if tensor.offset % alignment:
            raise damaged_gguf(path, f"tensor {name} begins at {tensor.offset}, no multiple of {alignment}")
        if place < end:
            raise damaged_gguf(path, f"tensor {name} overlaps the one before it")
        end = place + tensor.nbytes
        if end > size:
            raise damaged_gguf(path, f"tensor {name} ends at byte {end}, the file at {size}: truncated")
        names.add(tensor.name)
        placed.append(GgufTensor(tensor.name, tensor.shape, tensor.encoding, place, tensor.nbytes))
    return tuple(placed)
