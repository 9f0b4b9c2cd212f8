"""The header of one safetensors file, read and checked without touching the tensors.

Source: the format page of safetensors (8-byte little-endian length, JSON, data); its limit of 100 MB is kept.
"""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path
from typing import Final

from specc.checkpoint.source import TensorHeader
from specc.checkpoint.values import is_text, shortened
from specc.errors import SpeccError

MAX_HEADER_BYTES: Final = 100_000_000
MAX_DIMENSIONS: Final = 64
PLAIN_ENCODINGS: Final = {"f32": 4, "f16": 2, "bf16": 2}
"""Element encodings that are plain numbers, with bytes per element."""

BITS: Final[dict[str, int]] = {
    "BOOL": 8,
    "F4": 4,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
    "U8": 8,
    "I8": 8,
    "F8_E5M2": 8,
    "F8_E4M3": 8,
    "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8,
    "F8_E5M2FNUZ": 8,
    "I16": 16,
    "U16": 16,
    "F16": 16,
    "BF16": 16,
    "I32": 32,
    "U32": 32,
    "F32": 32,
    "C64": 64,
    "F64": 64,
    "I64": 64,
    "U64": 64,
}


def headers_from_safetensors(path: Path) -> dict[str, TensorHeader]:
    """Return the tensors of one safetensors file by name, in order of their offsets.

    Args:
        path: the file, absolute; symbolic links are resolved, so that the bytes can be hard-linked.

    Raises:
        SpeccError: SPC206 the file cannot be read, SPC220 the header is damaged.
    """
    path = path.resolve()
    raw, start, size = _header_bytes(path)
    entries = _entries(path, raw)
    entries.pop("__metadata__", None)
    headers = [_tensor_header(path, name, entry, start) for name, entry in entries.items()]
    headers.sort(key=lambda header: (header.offset, header.nbytes))
    end = start
    for header in headers:
        if header.offset != end:
            kind = "overlaps the one before" if header.offset < end else f"leaves {header.offset - end} bytes unused"
            raise _damaged(path, f"tensor `{header.name}` {kind}", header.name)
        end += header.nbytes
    if end != size:
        problem = f"the tensors end at byte {end}, the file at {size}"
        raise _damaged(path, problem + (": truncated" if end > size else ""))
    return {header.name: header for header in headers}


def _header_bytes(path: Path) -> tuple[bytes, int, int]:
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            prefix = file.read(8)
            if len(prefix) < 8:
                raise _damaged(path, f"the file has only {size} bytes")
            (length,) = struct.unpack("<Q", prefix)
            if length > min(MAX_HEADER_BYTES, size - 8):
                limit = min(MAX_HEADER_BYTES, size - 8)
                raise _damaged(path, f"the header claims {length} bytes, at most {limit} are possible")
            raw = file.read(length)
    except OSError as error:
        raise SpeccError(
            "SPC206",
            str(path),
            error.strerror or type(error).__name__,
            "it holds tensors of the checkpoint",
            "restore the file or its permissions",
        ) from None
    if len(raw) < length:
        raise _damaged(path, "the header ends early")
    return raw, 8 + length, size


def _entries(path: Path, raw: bytes) -> dict[str, object]:
    try:
        value = json.loads(raw.decode("utf-8"), object_pairs_hook=_object_without_duplicates)
    except RecursionError:
        raise _damaged(path, "the header is nested too deeply") from None
    except ValueError as error:
        raise _damaged(path, f"the header is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise _damaged(path, "the header is not a JSON object")
    return value


def _object_without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {twice!r} stands twice")
    return result


def _tensor_header(path: Path, name: str, entry: object, start: int) -> TensorHeader:
    if not is_text(name):
        raise _damaged(path, "the tensor's name is not text", name)
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise _damaged(path, f"got {shortened(entry)}, expected dtype, shape and data_offsets", name)
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in BITS:
        raise _damaged(path, f"dtype {shortened(dtype)} is not one of {', '.join(BITS)}", name)
    if not _is_counts(shape) or len(shape) > MAX_DIMENSIONS:
        raise _damaged(path, f"shape {shortened(shape)} is not a list of sizes", name)
    if not _is_counts(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise _damaged(path, f"data_offsets {shortened(offsets)} are not [begin, end]", name)
    bits = math.prod(shape) * BITS[dtype]
    nbytes = offsets[1] - offsets[0]
    if bits != nbytes * 8:
        raise _damaged(
            path, f"{dtype} {shortened(shape)} needs {shortened(bits)} bits, data_offsets give {nbytes * 8}", name
        )
    encoding = dtype.lower()
    return TensorHeader(
        name=name,
        shape=tuple(shape),
        encoding=encoding,
        file=path,
        offset=start + offsets[0],
        nbytes=nbytes,
        plain=encoding in PLAIN_ENCODINGS,
    )


def _is_counts(value: object) -> bool:
    return isinstance(value, list) and all(type(item) is int and 0 <= item < 2**63 for item in value)


def _damaged(path: Path, problem: str, tensor: str | None = None) -> SpeccError:
    return SpeccError(
        "SPC220",
        str(path) if tensor is None else f"{path} {shortened(tensor)}",
        problem,
        "tensors would be read from wrong bytes",
        "download the file again and compare its size and digest with the source",
    )
