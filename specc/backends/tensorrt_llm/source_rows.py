"""Rows and columns of a source tensor, block by block, so that memory does not grow with the tensor."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final, TypeAlias

import ml_dtypes
import numpy as np
import numpy.typing as npt

from specc.backends.tensorrt_llm.pieces import Piece
from specc.checkpoint.source import SourceCheckpoint, TensorHeader
from specc.errors import SpeccBug, SpeccError

Rows: TypeAlias = npt.NDArray[Any]

BLOCK_BYTES: Final = 8 << 20
STORED: Final[dict[str, np.dtype[Any]]] = {
    "f32": np.dtype("<f4"),
    "f16": np.dtype("<f2"),
    "bf16": np.dtype(ml_dtypes.bfloat16),
}


def row_blocks(source: SourceCheckpoint, piece: Piece) -> Iterator[Rows]:
    """Yield the elements of a piece as they are stored, rows in order: [n, K], or [n] of a vector.

    A tensor whose bytes are not plain rows, as in a GGUF file, is decoded whole to float32 first.

    Raises:
        SpeccError: SPC206 the file ends early, SPC2nn the tensor cannot be decoded.
    """
    if piece.source is None:
        raise SpeccBug("a piece of zeros has no source")
    header = source.headers[piece.source]
    blocks = _plain_blocks(header, piece) if _is_plain(header) else _decoded(source, piece)
    for block in blocks:
        yield block if piece.columns is None else block[:, piece.columns[0] : piece.columns[1]]


def _is_plain(header: TensorHeader) -> bool:
    return header.plain and header.encoding in STORED


def _decoded(source: SourceCheckpoint, piece: Piece) -> Iterator[Rows]:
    assert piece.source is not None
    values = source.read_float32(piece.source)[piece.rows[0] : piece.rows[1]]
    step = max(1, BLOCK_BYTES // max(1, values.nbytes // max(1, len(values))))
    for start in range(0, len(values), step):
        yield values[start : start + step]


def _plain_blocks(header: TensorHeader, piece: Piece) -> Iterator[Rows]:
    dtype, shape = STORED[header.encoding], header.shape
    row_bytes = math.prod(shape[1:]) * dtype.itemsize
    first, last = piece.rows
    step = max(1, BLOCK_BYTES // row_bytes)
    buffer = bytearray(min(step, last - first) * row_bytes)
    with header.file.open("rb", buffering=0) as file:
        file.seek(header.offset + first * row_bytes)
        for start in range(first, last, step):
            count = min(step, last - start)
            view = memoryview(buffer)[: count * row_bytes]
            _fill(view, file.readinto, header)
            yield np.frombuffer(view, dtype).reshape(count, *shape[1:])


def _fill(view: memoryview, readinto: Any, header: TensorHeader) -> None:  # noqa: ANN401 - of an unbuffered file
    done = 0
    while done < len(view):
        count = readinto(view[done:])
        if not count:
            raise SpeccError(
                "SPC206",
                f"{header.file} {header.name}",
                "the file ends before the tensor does",
                "the file changed while specc was using it",
                "leave the checkpoint alone during a build, and build again",
            )
        done += count
