"""How one matrix is stored: its elements, and which of them share a scale. The Plan holds one such row per matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from specc.errors import SpeccBug

WeightElement: TypeAlias = Literal["int4", "uint4", "int7", "int8", "fp8_e4m3", "fp4_e2m1"]
QuantizationMethod: TypeAlias = Literal["rtn", "mse", "awq", "gptq", "smoothquant"]
ScaleDtype: TypeAlias = Literal["f32", "f16", "bf16", "fp8_e4m3"]

CALIBRATED_METHODS: Final[tuple[QuantizationMethod, ...]] = ("awq", "gptq", "smoothquant")
"""Methods that look at what goes into a layer while the model reads texts."""
ELEMENT_BITS: Final[dict[WeightElement, int]] = {
    "int4": 4,
    "uint4": 4,
    "int7": 8,
    "int8": 8,
    "fp8_e4m3": 8,
    "fp4_e2m1": 4,
}
"""As stored: `int7` fills a byte."""
SCALE_BITS: Final[dict[ScaleDtype, int]] = {"f32": 32, "f16": 16, "bf16": 16, "fp8_e4m3": 8}


@dataclass(frozen=True)
class WeightFormat:
    """The stored form of a matrix [N, K] of N outputs and K inputs.

    Attributes:
        element: of a code. `int7` is a byte from -64 to 63, so that two products with a byte of activations fit 16 bits
            together. `fp8_e4m3` is the variant without infinities (448 is the largest), `fp4_e2m1` has 6.
        granularity: what shares a scale: the whole matrix, an output channel (a row of K), or `group_size` neighbours
            along K.
        group_size: elements of a group; None for the other granularities. It divides K.
        zero_point: each scale has an integer beside it, the code of 0.0. `uint4` always has one, floats never; 4 bits
            without one are `int4`.
        scale_dtype: dtype that scales are stored in; they are rounded to it before the codes are chosen. `fp8_e4m3`
            (NVFP4) means a second scale, one float32 of the whole matrix.
    """

    element: WeightElement
    granularity: Literal["tensor", "channel", "group"]
    group_size: int | None
    zero_point: bool
    scale_dtype: ScaleDtype = "f32"

    def __post_init__(self) -> None:
        if (self.group_size is not None) != (self.granularity == "group") or self.group_size in (0, 1):
            raise SpeccBug(f"group size {self.group_size} with granularity {self.granularity}")
        wanted = {"uint4": True, "int8": self.zero_point}.get(self.element, False)
        if self.zero_point != wanted:
            raise SpeccBug(f"{self.element} {'with' if self.zero_point else 'without'} zero points")

    @property
    def bits(self) -> float:
        """Bits of one weight with its share of scale and zero point; those of whole channels or matrices vanish."""
        element = ELEMENT_BITS[self.element]
        if self.group_size is None:
            return float(element)
        return element + (SCALE_BITS[self.scale_dtype] + (element if self.zero_point else 0)) / self.group_size

    @property
    def two_level(self) -> bool:
        """Whether scales have a scale: one float32 of the whole matrix."""
        return self.scale_dtype == "fp8_e4m3"

    @property
    def title(self) -> str:
        """The format in words, for messages: `int4 in groups of 128, scales f16`."""
        where = {"tensor": "a tensor", "channel": "a channel", "group": f"groups of {self.group_size}"}
        shared = where[self.granularity]
        placed = f"in {shared}" if self.granularity == "group" else f"with one scale {shared}"
        return f"{self.element} {placed}{' with zero points' if self.zero_point else ''}, scales {self.scale_dtype}"

    def scales_shape(self, shape: tuple[int, int]) -> tuple[int, int]:
        """Return the shape of the scales of a matrix [N, K]: [N, K/g], [N, 1] or [1, 1].

        Raises:
            SpeccBug: the groups do not divide K; planning refuses that by name.
        """
        rows, columns = shape
        if self.group_size is None:
            return (1 if self.granularity == "tensor" else rows, 1)
        if columns % self.group_size:
            raise SpeccBug(f"groups of {self.group_size} do not divide {columns} columns")
        return rows, columns // self.group_size


NVFP4: Final = WeightFormat("fp4_e2m1", "group", 16, zero_point=False, scale_dtype="fp8_e4m3")
"""Blocks of 16 under e4m3 scales under one float32: what sm_120 reads."""

TYPICAL_ERRORS: Final[dict[tuple[WeightElement, int | None], float]] = {
    ("int4", 32): 0.095,
    ("int4", 64): 0.103,
    ("int4", 128): 0.111,
    ("uint4", 32): 0.081,
    ("uint4", 64): 0.091,
    ("uint4", 128): 0.100,
    ("int8", 32): 0.006,
    ("int8", 64): 0.006,
    ("int8", 128): 0.007,
    ("int8", None): 0.008,
    ("int7", None): 0.016,
    ("fp8_e4m3", None): 0.026,
    ("fp4_e2m1", 16): 0.095,
}
"""By element and group: root of the squared differences over that of the squared weights, rounded to nearest.

Measured on normal numbers, plain ones and such as were stored as q4_1, q5_0, q5_1 or q8_0 before: within a sixth of
these (q4_0, whose groups of 32 are those of int4, moves less). A search of scales takes up to a sixth off.
"""


def typical_error(form: WeightFormat) -> float | None:
    """Return how far rounding to a format usually moves a matrix, relative to its size; None where it is not known."""
    return TYPICAL_ERRORS.get((form.element, form.group_size))
