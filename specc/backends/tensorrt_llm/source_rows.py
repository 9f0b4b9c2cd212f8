"""Rows and columns of a source tensor, block by block, so that memory does not grow with the tensor."""

from __future__ import annotations

import math
import os
import sys
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
    "fp8_e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
}


def row_blocks(source: SourceCheckpoint, piece: Piece) -> Iterator[Rows]:
    """Yield the elements of a piece as they are stored, codes of fp8 too, rows in order: [n, K], or [n] of a vector.

    A tensor whose bytes are not plain rows, as in a GGUF file, is decoded whole to float32 first.

    Raises:
        SpeccError: SPC206 the file ends early, SPC2nn the tensor cannot be decoded.
    """
    if piece.source is None:
        raise SpeccBug("a piece of zeros has no source")
    header = source.headers[piece.source]
    if _is_plain(header):
        yield from _plain_blocks(header, piece)
    else:
        columns = slice(None) if piece.columns is None else slice(*piece.columns)
        yield from (block[..., columns] for block in _decoded(source, piece))


def _is_plain(header: TensorHeader) -> bool:
    codes = header.packed is not None and header.packed.layout == "rows"
    return (header.plain or codes) and header.encoding in STORED


def _decoded(source: SourceCheckpoint, piece: Piece) -> Iterator[Rows]:
    assert piece.source is not None
    values = source.read_float32(piece.source)[piece.rows[0] : piece.rows[1]]
    step = max(1, BLOCK_BYTES // max(1, values.nbytes // max(1, len(values))))
    for start in range(0, len(values), step):
        yield values[start : start + step]


def _plain_blocks(header: TensorHeader, piece: Piece) -> Iterator[Rows]:
    """Yield rows as they lie; of columns only these are read, after the file system was told to fetch the whole."""
    dtype, shape = STORED[header.encoding], header.shape
    row_bytes = math.prod(shape[1:]) * dtype.itemsize
    first, last = piece.rows
    begin, end = (0, row_bytes) if piece.columns is None else (n * dtype.itemsize for n in piece.columns)
    width = end - begin
    step = max(1, BLOCK_BYTES // width)
    buffer = bytearray(min(step, last - first) * width)
    with header.file.open("rb", buffering=0) as file:
        handle, origin = file.fileno(), header.offset + begin
        if width < row_bytes and sys.platform == "linux":
            length = (last - first) * row_bytes
            os.posix_fadvise(handle, header.offset + first * row_bytes, length, os.POSIX_FADV_WILLNEED)
        for start in range(first, last, step):
            count = min(step, last - start)
            view = memoryview(buffer)[: count * width]
            if width == row_bytes:
                _fill(view, handle, origin + start * row_bytes, header)
            else:
                for row in range(count):
                    _fill(view[row * width : (row + 1) * width], handle, origin + (start + row) * row_bytes, header)
            elements = np.frombuffer(view, dtype)
            yield elements if len(shape) == 1 else elements.reshape(count, -1)


def _fill(view: memoryview, handle: int, offset: int, header: TensorHeader) -> None:
    done = 0
    while done < len(view):
        count = os.preadv(handle, [view[done:]], offset + done)
        if not count:
            raise SpeccError(
                "SPC206",
                f"{header.file} {header.name}",
                "the file ends before the tensor does",
                "the file changed while specc was using it",
                "leave the checkpoint alone during a build, and build again",
            )
        done += count
