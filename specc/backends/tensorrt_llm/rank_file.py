"""Writing of one rank file: the header, whose sizes all follow from the layout, then tensor by tensor in blocks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from specc.backends.tensorrt_llm.pieces import BYTES, RankDtype, RankTensor
from specc.backends.tensorrt_llm.values import blocks_of_tensor
from specc.checkpoint.source import SourceCheckpoint
from specc.errors import SpeccBug
from specc.progress import Progress

ALIGNMENT: Final = 64
STORED_NAMES: Final[dict[RankDtype, str]] = {
    "f32": "F32",
    "f16": "F16",
    "bf16": "BF16",
    "f8_e4m3": "F8_E4M3",
    "i8": "I8",
}


def in_file_order(tensors: Iterable[RankTensor]) -> list[RankTensor]:
    """Return the tensors so that each is aligned to its elements: the format allows no holes between them."""
    return sorted(tensors, key=lambda tensor: (tensor.nbytes % ALIGNMENT != 0, -BYTES[tensor.dtype]))


def header_from_tensors(tensors: Sequence[RankTensor]) -> bytes:
    """Return the first bytes of a file that holds the tensors in this order: length, names, shapes and offsets."""
    entries: dict[str, object] = {}
    position = 0
    for tensor in tensors:
        end = position + tensor.nbytes
        dtype = STORED_NAMES[tensor.dtype]
        entries[tensor.name] = {"dtype": dtype, "shape": list(tensor.shape), "data_offsets": [position, end]}
        position = end
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % ALIGNMENT)
    return len(text).to_bytes(8, "little") + text


def write_rank_file(path: Path, tensors: Iterable[RankTensor], source: SourceCheckpoint, progress: Progress) -> None:
    """Write a rank file; memory holds one block at a time. Equal input gives equal bytes.

    Raises:
        SpeccError: SPC404 a value does not fit float16; SPC2nn the source changed or is damaged.
        SpeccBug: the blocks of a tensor are not what its shape says.
    """
    ordered = in_file_order(tensors)
    total, written = sum(tensor.nbytes for tensor in ordered), 0
    with path.open("wb") as file:
        file.write(header_from_tensors(ordered))
        for tensor in ordered:
            before = written
            for block in blocks_of_tensor(tensor, source):
                file.write(block)
                written += len(block)
                progress("write checkpoint", written, total)
            if written - before != tensor.nbytes:
                raise SpeccBug(f"{tensor.name} has {written - before} bytes, its shape says {tensor.nbytes}")


def write_rank_outline(path: Path, tensors: Iterable[RankTensor]) -> None:
    """Write the header and a hole of the size of the rest, which takes no room on the disk."""
    ordered = in_file_order(tensors)
    header = header_from_tensors(ordered)
    with path.open("wb") as file:
        file.write(header)
        file.truncate(len(header) + sum(tensor.nbytes for tensor in ordered))


def tensor_index(tensors: Iterable[RankTensor]) -> Iterator[tuple[str, str, tuple[int, ...]]]:
    """Yield name, dtype and shape of each tensor, in the order of the file."""
    for tensor in in_file_order(tensors):
        yield tensor.name, tensor.dtype, tensor.shape
