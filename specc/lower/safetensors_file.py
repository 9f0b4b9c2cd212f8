"""Writing of one safetensors file, header first, then tensor by tensor, so that memory holds one tensor at a time."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from specc.errors import SpeccBug
from specc.graph.builder import WeightDtype
from specc.progress import Progress

ALIGNMENT: Final = 64
DTYPE_NAMES: Final[dict[WeightDtype, tuple[str, int]]] = {
    "f32": ("F32", 4),
    "f16": ("F16", 2),
    "bf16": ("BF16", 2),
    "i64": ("I64", 8),
    "i32": ("I32", 4),
    "u8": ("U8", 1),
    "i8": ("I8", 1),
    "f8e4m3": ("F8_E4M3", 1),
}


@dataclass(frozen=True)
class FileTensor:
    """A tensor to be written.

    Attributes:
        dtype: one of the file's; elements of 4 bits are written as bytes of two.
        content: returns its bytes, row-major and little-endian, when its turn comes.
        together: tensors of one such name are written one after the other; empty: it stands alone.
    """

    name: str
    dtype: WeightDtype
    shape: tuple[int, ...]
    content: Callable[[], bytes]
    together: str = ""

    @property
    def nbytes(self) -> int:
        """Bytes in the file."""
        return math.prod(self.shape) * DTYPE_NAMES[self.dtype][1]


def write_safetensors(path: Path, tensors: Sequence[FileTensor], progress: Progress) -> dict[str, int]:
    """Write the file and return each tensor's offset from the start of the file.

    The format allows no holes, so tensors whose size is a multiple of 64 bytes come first, and so does what is written
    together if all of it is: those, in practice all that count, are aligned to 64. Equal input gives equal bytes.

    Raises:
        SpeccBug: a tensor's content has another size than its shape says.
    """
    odd = {tensor.together or tensor.name for tensor in tensors if tensor.nbytes % ALIGNMENT}
    order = sorted(tensors, key=lambda tensor: (tensor.together or tensor.name) in odd)
    entries: dict[str, object] = {}
    position = 0
    for tensor in order:
        end = position + tensor.nbytes
        dtype = DTYPE_NAMES[tensor.dtype][0]
        entries[tensor.name] = {"dtype": dtype, "shape": list(tensor.shape), "data_offsets": [position, end]}
        position = end
    header = json.dumps(entries, separators=(",", ":")).encode()
    header += b" " * (-(8 + len(header)) % ALIGNMENT)
    offsets: dict[str, int] = {}
    with path.open("wb") as file:
        file.write(len(header).to_bytes(8, "little"))
        file.write(header)
        for tensor in order:
            offsets[tensor.name] = file.tell()
            content = tensor.content()
            if len(content) != tensor.nbytes:
                raise SpeccBug(f"{tensor.name} has {len(content)} bytes, its shape says {tensor.nbytes}")
            file.write(content)
            progress("write weights", file.tell() - 8 - len(header), position)
    return offsets
