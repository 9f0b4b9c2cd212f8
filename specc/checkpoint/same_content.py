"""Whether two checkpoints hold the same weights, as a copied folder does: by headers and a few ranges of bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from specc.checkpoint.source import TensorHeader

RANGES: Final = 8
RANGE_BYTES: Final = 1 << 16
GOLDEN: Final = 0.6180339887498949
"""Multiples of it, modulo 1, spread over an interval without a period, so that they meet every class of matrices."""


@dataclass(frozen=True)
class SameContent:
    """What was compared, and found equal.

    Attributes:
        tensors: all of each checkpoint, by name, shape and encoding.
        sampled: names of those of which bytes were compared.
        compared: bytes of these, in each checkpoint.
        total: bytes of all tensors of one checkpoint.
    """

    tensors: int
    sampled: tuple[str, ...]
    compared: int
    total: int

    @property
    def told(self) -> str:
        """For people: what was compared, and what was not."""
        described = f"{self.tensors} tensors of the same names, shapes and dtypes"
        if self.compared == self.total:
            return f"{described}, and all of their bytes are equal"
        sample = f"{_amount(self.compared)} of {len(self.sampled)} of them are equal"
        return f"{described}, and {sample}; the rest of {_amount(self.total)} was not read"


def same_content(ours: Mapping[str, TensorHeader], theirs: Mapping[str, TensorHeader]) -> SameContent | None:
    """Compare two checkpoints; None where they differ, or where there are no bytes to compare.

    Equal samples are no proof: a checkpoint that differs only elsewhere is taken for the same one, and what is told
    says how much was read.

    Args:
        ours: headers of one checkpoint by canonical name.
        theirs: of the other.
    """
    if not ours or _described(ours) != _described(theirs):
        return None
    sampled, compared = sampled_names(ours), 0
    for name in sampled:
        bytes_of_ours = _middle(ours[name])
        if bytes_of_ours != _middle(theirs[name]):
            return None
        compared += len(bytes_of_ours)
    return SameContent(len(ours), sampled, compared, sum(h.nbytes for h in ours.values())) if compared else None


def sampled_names(headers: Mapping[str, TensorHeader]) -> tuple[str, ...]:
    """Return the tensors of which bytes are compared: matrices, for norms are alike in many checkpoints."""
    names = sorted(name for name, header in headers.items() if len(header.shape) > 1) or sorted(headers)
    return tuple(sorted({names[int(len(names) * (i * GOLDEN % 1))] for i in range(RANGES)}))


def _described(headers: Mapping[str, TensorHeader]) -> dict[str, tuple[tuple[int, ...], str, int]]:
    return {name: (header.shape, header.encoding, header.nbytes) for name, header in headers.items()}


def _middle(header: TensorHeader) -> bytes:
    length = min(header.nbytes, RANGE_BYTES)
    if not length:
        return b""
    with header.file.open("rb") as file:
        file.seek(header.offset + (header.nbytes - length) // 2)
        return file.read(length)


def _amount(nbytes: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if nbytes >= size:
            return f"{nbytes / size:.3g} {unit}"
    return f"{nbytes} bytes"
