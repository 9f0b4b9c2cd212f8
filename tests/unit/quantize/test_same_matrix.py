"""Formats that hold another's matrices hold them exactly; the others are not taken for such."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from specc.catalog.weight_formats import NVFP4, WeightFormat
from specc.errors import SpeccBug
from specc.quantize.quantized_from_float import quantized_from_float
from specc.quantize.same_matrix import means_the_same, same_matrix

FORMATS = (
    WeightFormat("int4", "group", 32, zero_point=False, scale_dtype="f16"),
    WeightFormat("int4", "group", 64, zero_point=False, scale_dtype="f32"),
    WeightFormat("int4", "channel", None, zero_point=False, scale_dtype="bf16"),
    WeightFormat("uint4", "group", 32, zero_point=True, scale_dtype="f16"),
    WeightFormat("int8", "group", 32, zero_point=False, scale_dtype="f16"),
    WeightFormat("int8", "group", 16, zero_point=True, scale_dtype="f32"),
    WeightFormat("int8", "tensor", None, zero_point=False, scale_dtype="f32"),
    WeightFormat("fp8_e4m3", "tensor", None, zero_point=False, scale_dtype="f32"),
    WeightFormat("fp8_e4m3", "channel", None, zero_point=False, scale_dtype="f32"),
    NVFP4,
)
SAME = {(2, 1), (0, 3), (0, 4), (0, 5), (1, 5), (2, 5), (3, 5), (4, 5), (6, 5), (7, 8)} | {
    (i, i) for i in range(len(FORMATS))
}


def test_which_formats_hold_which() -> None:
    pairs = itertools.product(range(len(FORMATS)), repeat=2)
    assert {(i, j) for i, j in pairs if means_the_same(FORMATS[i], FORMATS[j])} == SAME


@pytest.mark.parametrize(("stored", "wanted"), sorted(SAME))
def test_the_numbers_are_the_same_to_the_last_bit(stored: int, wanted: int) -> None:
    weight = (np.random.default_rng(1).standard_normal((6, 128)) * 0.03).astype(np.float32)
    quantized = quantized_from_float(weight, FORMATS[stored], "rtn")
    again = same_matrix(quantized, FORMATS[wanted])
    assert again.format == FORMATS[wanted]
    np.testing.assert_array_equal(again.dequantized(), quantized.dequantized())


def test_a_format_that_loses_numbers_is_a_bug() -> None:
    quantized = quantized_from_float(np.ones((2, 64), np.float32), FORMATS[4], "rtn")
    with pytest.raises(SpeccBug, match="not always"):
        same_matrix(quantized, FORMATS[0])
