"""Quantized matrices as ONNX Runtime multiplies them, against the float graph over the dequantized weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from specc.catalog.weight_formats import WeightFormat
from specc.errors import SpeccBug
from specc.plan.plan import WeightRow
from specc.quantize.quantized_from_float import quantized_from_float
from tests.quantized import INT4, INT8, logits_of, lowered, quantized_rows
from tests.tiny_engines import source_from_sizes
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
    rows = quantized_rows(body, tied=tied)
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


@pytest.mark.parametrize("element", [INT4, INT8], ids=lambda form: form.element)
def test_rows_of_a_tied_embedding_are_looked_up_in_the_heads_codes(tmp_path: Path, element: WeightFormat) -> None:
    sizes = TinyLlama(tie_word_embeddings=True)
    rows = (WeightRow("model.embed_tokens.weight", "w8a16", element, "rtn"),)
    path = lowered(tmp_path, sizes, rows)
    model = onnx.load(path, load_external_data=False)
    model.graph.output.append(onnx.helper.make_tensor_value_info("model.embed_tokens", onnx.TensorProto.FLOAT, None))
    onnx.save(model, path)
    session = onnxruntime.InferenceSession(path)
    ids = np.array([[0, 5, 263], [263, 1, 2]])
    inputs = {item.name: np.zeros((2, 2, 64, 16), np.float32) for item in session.get_inputs() if "cache" in item.name}
    inputs |= {name: np.zeros(2, np.int64) for name in ("num_tokens", "past_lengths", "num_draft")}
    inputs |= {"input_ids": ids, "logit_rows": np.zeros((2, 1), np.int64)}
    source = source_from_sizes(tmp_path / "again", sizes)
    table = quantized_from_float(source.tensors["model.embed_tokens.weight"], element, "rtn").dequantized()
    np.testing.assert_array_equal(session.run(["model.embed_tokens"], inputs)[0], table[ids])
    names = [tensor.name for tensor in model.graph.initializer if "embed_tokens" in tensor.name]
    assert sorted(names) == ["model.embed_tokens.weight.codes", "model.embed_tokens.weight.scales"]


def test_a_quantized_tensor_that_is_not_multiplied_is_a_bug(tmp_path: Path) -> None:
    form = WeightFormat("int8", "tensor", None, zero_point=False)
    rows = (WeightRow("model.layers.*_proj.weight", "w8a16", form, "rtn"),)
    with pytest.raises(SpeccBug, match="onnxruntime has no layout for int8 with one scale a tensor"):
        lowered(tmp_path, TinyLlama(), rows)
