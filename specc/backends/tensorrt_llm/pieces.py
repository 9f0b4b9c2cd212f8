"""A tensor of a rank file as pieces of source tensors: a layout that can be written, or read back, or only listed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

RankDtype: TypeAlias = Literal["f32", "f16", "bf16", "f8_e4m3"]
Content: TypeAlias = Literal["values", "codes", "scales", "stored codes", "weight scale", "input scale", "one"]

BYTES: Final[dict[RankDtype, int]] = {"f32": 4, "f16": 2, "bf16": 2, "f8_e4m3": 1}


@dataclass(frozen=True)
class Piece:
    """Rows of a source tensor, or columns of all its rows, or rows of zeros.

    Attributes:
        source: canonical Hugging Face name; None: zeros.
        rows: first row, and the one behind the last.
        columns: likewise; None: all of them, and of vectors, whose elements are rows.
    """

    source: str | None
    rows: tuple[int, int]
    columns: tuple[int, int] | None = None


@dataclass(frozen=True)
class RankTensor:
    """One tensor of a rank file.

    Attributes:
        name: as TensorRT-LLM calls it.
        dtype: of an element.
        shape: of the tensor; its rows are those of the pieces, one after the other.
        pieces: where the elements come from.
        content: what is stored of them: the values, fp8 codes under a scale for each row, or these scales; `stored
            codes` are the source's own, under the largest weight_scale of `scaled_by`, and the two numbers are the
            largest of their weight_scale and input_scale; `one` is 1. Numbers have no pieces.
        scaled_by: source matrices that share a scale.
        added: to every value, in float32 before it is rounded: Gemma's norms are stored as 1 + w.
    """

    name: str
    dtype: RankDtype
    shape: tuple[int, ...]
    pieces: tuple[Piece, ...]
    content: Content = "values"
    scaled_by: tuple[str, ...] = ()
    added: float = 0.0

    @property
    def nbytes(self) -> int:
        """Bytes in the file."""
        return math.prod(self.shape) * BYTES[self.dtype]
