"""The errors that plans state: those of normal numbers, plain and as GGUF blocks that the gguf package made."""

from __future__ import annotations

import gguf
import numpy as np
import pytest

from specc.catalog.capabilities import BACKENDS
from specc.catalog.weight_formats import WeightFormat, typical_error
from specc.quantize.quantized_from_float import quantized_from_float

FORMATS = tuple(
    dict.fromkeys(form for row in BACKENDS.values() for support in row.schemes.values() for form in support.formats)
)
NEAR = 1 / 6


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.title)
@pytest.mark.parametrize("stored", ["", "Q4_1", "Q5_0", "Q5_1", "Q8_0"])
def test_rounding_moves_a_matrix_by_what_the_plan_says(form: WeightFormat, stored: str) -> None:
    weight = (0.05 * np.random.default_rng(0).standard_normal((64, 1536))).astype(np.float32)
    if stored:
        kind = gguf.GGMLQuantizationType[stored]
        weight = gguf.dequantize(gguf.quantize(weight, kind), kind).astype(np.float32)
    expected = typical_error(form)
    assert expected is not None
    for method in ("rtn", "mse"):
        difference = quantized_from_float(weight, form, method).dequantized() - weight
        found = np.linalg.norm(difference) / np.linalg.norm(weight)
        if not (form.element == "int8" and stored in ("Q5_0", "Q8_0")):
            assert found == pytest.approx(expected, rel=NEAR)
        assert found < expected * (1 + NEAR)
