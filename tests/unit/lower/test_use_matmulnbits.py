"""Quantized matrices as ONNX Runtime multiplies them, against the float graph over the dequantized weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from specc.catalog.weight_formats import WeightFormat
from specc.errors import SpeccBug
from specc.plan.plan import WeightRow
from tests.quantized import INT4, INT8, logits_of, lowered, quantized_rows
from tests.tiny_models import TinyLlama

UINT4 = WeightFormat("uint4", "group", 32, zero_point=True)
# float32 sums in another order; logits have a standard deviation of a few units.
ATOL = 2e-4
# Activations rounded to 8 bits in each of the 15 products, logits up to 30: twice the largest difference measured.
ROUNDED_ATOL = 1.8


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("body", [INT4, UINT4, INT8], ids=lambda form: form.title)
def test_products_are_those_of_the_dequantized_weights(tmp_path: Path, body: WeightFormat, tied: bool) -> None:
    sizes = TinyLlama(tie_word_embeddings=tied)
    rows = quantized_rows(body, tied=tied, head=INT8)
    (tmp_path / "float").mkdir()
    expected = logits_of(lowered(tmp_path / "float", sizes, (), dequantized_as=rows), sizes)
    path = lowered(tmp_path, sizes, rows)
    assert np.abs(logits_of(path, sizes) - expected).max() < ROUNDED_ATOL
    exact = onnx.load(path, load_external_data=False)
    products = [node for node in exact.graph.node if node.op_type == "MatMulNBits"]
    assert len(products) == 4 * sizes.num_hidden_layers + 1, "q, k, v and gate, up are joined"
    for node in products:
        (level,) = (attribute for attribute in node.attribute if attribute.name == "accuracy_level")
        assert level.i == 4
        level.i = 1  # activations stay float32
    onnx.save(exact, path)
    np.testing.assert_allclose(logits_of(path, sizes), expected, rtol=0, atol=ATOL)


def test_a_quantized_tensor_that_is_not_multiplied_is_a_bug(tmp_path: Path) -> None:
    form = WeightFormat("int8", "tensor", None, zero_point=False)
    rows = (WeightRow("model.layers.*_proj.weight", "w8a16", form, "rtn"),)
    with pytest.raises(SpeccBug, match="onnxruntime has no layout for int8 with one scale a tensor"):
        lowered(tmp_path, TinyLlama(), rows)
