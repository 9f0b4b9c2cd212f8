"""Element types, by the names that recipes, plans and manifests use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class DtypeRow:
    """One element type.

    Attributes:
        name: key of the row.
        title: what it is, in words.
        nbytes: bytes of one element.
    """

    name: str
    title: str
    nbytes: int


DTYPES: Final[dict[str, DtypeRow]] = {
    "f32": DtypeRow("f32", "IEEE binary32", 4),
    "f16": DtypeRow("f16", "IEEE binary16: 11 bits of precision, largest value 65504", 2),
    "bf16": DtypeRow("bf16", "bfloat16: 8 bits of precision, the range of f32", 2),
    "fp8": DtypeRow("fp8", "8-bit float e4m3: 4 bits of precision, largest value 448", 1),
    "int8": DtypeRow("int8", "8-bit integer with scales", 1),
}
