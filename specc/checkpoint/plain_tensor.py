"""Plain tensors (f32, f16, bf16) memory-mapped and converted to float32, one at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, TypeAlias

import ml_dtypes
import numpy as np
import numpy.typing as npt

from specc.checkpoint.safetensors_header import PLAIN_ENCODINGS
from specc.checkpoint.source import Float32Array, TensorHeader
from specc.errors import SpeccError

Uint8Array: TypeAlias = npt.NDArray[np.uint8]

ARRAY_DTYPES: Final[dict[str, np.dtype[Any]]] = {
    "i8": np.dtype(np.int8),
    "u8": np.dtype(np.uint8),
    "i32": np.dtype("<i4"),
    "i64": np.dtype("<i8"),
    "f32": np.dtype("<f4"),
    "f16": np.dtype("<f2"),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f8_e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
}
"""Encodings that the tensors of quantized layers may have."""


def bytes_from_header(header: TensorHeader) -> Uint8Array:
    """Return a tensor's bytes as a read-only memory map, uint8 [nbytes].

    Raises:
        SpeccError: SPC206 the file is gone or shorter than when its header was read.
    """
    if header.nbytes == 0:
        return np.empty(0, dtype=np.uint8)
    try:
        size = header.file.stat().st_size
        if size >= header.offset + header.nbytes:
            return np.memmap(header.file, dtype=np.uint8, mode="r", offset=header.offset, shape=(header.nbytes,))
        problem = f"the file has {size} bytes now, the tensor ends at {header.offset + header.nbytes}"
    except OSError as error:
        problem = error.strerror or type(error).__name__
    raise SpeccError(
        "SPC206",
        f"{header.file} {header.name}",
        problem,
        "the file changed while specc was using it",
        "leave the checkpoint alone during a build, and build again",
    )


def float32_from_plain(header: TensorHeader) -> Float32Array:
    """Return a plain tensor as a new float32 array of the header's shape; the conversion is exact.

    Raises:
        SpeccError: SPC206 the file changed, SPC222 the encoding is not plain.
    """
    if header.encoding not in PLAIN_ENCODINGS:
        raise unreadable_encoding(header.file, header.name, header.encoding, tuple(PLAIN_ENCODINGS))
    raw = bytes_from_header(header)
    if header.encoding == "bf16":
        # bfloat16 is the upper half of a float32
        numbers = (raw.view("<u2").astype(np.uint32) << np.uint32(16)).view(np.float32)
    else:
        numbers = raw.view("<f4" if header.encoding == "f32" else "<f2").astype(np.float32)
    return numbers.reshape(header.shape)


def array_from_header(header: TensorHeader) -> npt.NDArray[Any]:
    """Return a tensor in the dtype it is stored in, as a read-only memory map of the header's shape.

    Raises:
        SpeccError: SPC206 the file changed, SPC222 its encoding is no NumPy dtype.
    """
    if header.encoding not in ARRAY_DTYPES:
        raise unreadable_encoding(header.file, header.name, header.encoding, tuple(ARRAY_DTYPES))
    return bytes_from_header(header).view(ARRAY_DTYPES[header.encoding]).reshape(header.shape)


def not_finite(header: TensorHeader) -> SpeccError:
    """Return the error for a tensor with infinities or NaN."""
    return SpeccError(
        "SPC223",
        f"{header.file} {header.name}",
        "some of its numbers are infinite or not a number",
        "every text of the model would be garbage",
        "download the file again and compare its digest with the source",
    )


def unreadable_encoding(file: Path, name: str, encoding: str, readable: tuple[str, ...]) -> SpeccError:
    """Return the error that names an encoding specc does not read, and those it does."""
    return SpeccError(
        "SPC222",
        f"{file} {name}",
        f"the tensor is stored as {encoding}; readable are {', '.join(readable)}",
        "specc does not know how its bytes become numbers",
        "use a checkpoint of the same model in one of these encodings",
    )
