"""A tensor of a rank file as pieces of source tensors: a layout that can be written, or read back, or only listed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

RankDtype: TypeAlias = Literal["f32", "f16", "bf16", "f8_e4m3", "i8"]
Content: TypeAlias = Literal[
    "values", "codes", "scales",
    "stored codes", "weight scale", "input scale", "cache scale",
    "int4 codes", "int4 scales", "int4 zeros", "input factors",
]  # fmt: skip

BYTES: Final[dict[RankDtype, int]] = {"f32": 4, "f16": 2, "bf16": 2, "f8_e4m3": 1, "i8": 1}


@dataclass(frozen=True)
class Piece:
    """Rows of a source tensor, or columns of all its rows, or rows of zeros.

    Attributes:
        source: canonical Hugging Face name; None: zeros.
        rows: first row, and the one behind the last.
        columns: likewise; None: all of them, and of vectors, whose elements are rows.
        scaled_by: source matrices whose largest weight_scale holds for stored codes, this one among them.
    """

    source: str | None
    rows: tuple[int, int]
    columns: tuple[int, int] | None = None
    scaled_by: tuple[str, ...] = ()


@dataclass(frozen=True)
class RankTensor:
    """One tensor of a rank file.

    Attributes:
        name: as TensorRT-LLM calls it.
        dtype: of an element.
        shape: of the tensor; its rows are those of the pieces, one after the other.
        pieces: where the elements come from.
        content: what is stored of them.
            `values`, fp8 `codes` under a scale for each row, or these `scales`.
            `stored codes` of fp8 are the source's own; `weight scale` is a number for each group of matrices,
            `input scale` one for all, the largest of the source's; `cache scale` is that of keys and values, 1 where
            the source has none.
            `int4 codes` two rows a byte, `int4 scales` of groups, `int4 zeros`: what a code of 0 stands for, groups
            first, and `input factors`, all of the source's own.
        groups: source matrices that share a scale, of the numbers above; numbers have no pieces.
        added: to every value, in float32 before it is rounded: Gemma's norms are stored as 1 + w.
    """

    name: str
    dtype: RankDtype
    shape: tuple[int, ...]
    pieces: tuple[Piece, ...]
    content: Content = "values"
    groups: tuple[tuple[str, ...], ...] = ()
    added: float = 0.0

    @property
    def nbytes(self) -> int:
        """Bytes in the file."""
        return math.prod(self.shape) * BYTES[self.dtype]
