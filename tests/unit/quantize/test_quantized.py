"""Several matrices as one: their rows one after the other, where nothing is shared across rows."""

from __future__ import annotations

import numpy as np
import pytest

from specc.catalog.weight_formats import NVFP4, WeightFormat
from specc.errors import SpeccBug
from specc.quantize.quantized import stacked
from specc.quantize.quantized_from_float import quantized_from_float

UINT4 = WeightFormat("uint4", "group", 16, zero_point=True, scale_dtype="f16")
INT7 = WeightFormat("int7", "channel", None, zero_point=False)


def weights() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    return tuple(rng.standard_normal((rows, 64)).astype(np.float32) for rows in (5, 9))


@pytest.mark.parametrize("form", [UINT4, INT7], ids=lambda form: form.title)
def test_rows_of_several_matrices_are_those_of_one(form: WeightFormat) -> None:
    parts = [quantized_from_float(weight, form, "mse") for weight in weights()]
    whole = stacked(parts)
    assert whole.shape == (14, 64)
    np.testing.assert_array_equal(whole.dequantized(), np.concatenate([part.dequantized() for part in parts]))
    assert stacked(parts[:1]) is parts[0]


@pytest.mark.parametrize("form", [NVFP4, WeightFormat("int8", "tensor", None, zero_point=False)], ids=str)
def test_matrices_with_scales_of_their_own_do_not_become_one(form: WeightFormat) -> None:
    with pytest.raises(SpeccBug, match="as one"):
        stacked([quantized_from_float(weight, form, "rtn") for weight in weights()])


def test_codes_of_seven_bits_stay_within_them() -> None:
    part = quantized_from_float(weights()[0], INT7, "rtn")
    assert (part.codes.min(), part.codes.max()) == (-64, 63)
    with pytest.raises(SpeccBug, match="outside -64 to 63"):
        type(part)(INT7, np.full((4, 8), 64, np.int8), np.ones((4, 1), np.float32))
