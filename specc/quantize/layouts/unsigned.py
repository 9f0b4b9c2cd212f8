"""Signed codes as unsigned ones and back: most layouts store code + 8 or code + 128."""

from __future__ import annotations

import numpy as np

from specc.catalog.weight_formats import WeightElement
from specc.errors import SpeccBug
from specc.quantize.elements import CodeArray
from specc.quantize.layouts.nibbles import Uint8Array

OFFSETS: dict[WeightElement, int] = {"int4": 8, "uint4": 0, "int8": 128}
"""What an unsigned code has more than the logical one; also the unsigned code of 0.0 where there is no zero point."""


def unsigned_codes(codes: CodeArray, element: WeightElement) -> Uint8Array:
    """Return codes or zero points of integers as uint8 from 0 on, of the same shape."""
    return codes.view(np.uint8) + np.uint8(_offset(element))


def signed_codes(codes: Uint8Array, element: WeightElement) -> CodeArray:
    """Return the inverse: uint8 for `uint4`, else int8."""
    shifted = codes - np.uint8(_offset(element))
    return shifted if element == "uint4" else shifted.view(np.int8)


def _offset(element: WeightElement) -> int:
    if element not in OFFSETS:
        raise SpeccBug(f"{element} is no integer")
    return OFFSETS[element]
