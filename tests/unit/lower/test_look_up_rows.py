"""Rows of a quantized embedding, which may be the head too."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from specc.catalog.weight_formats import WeightFormat
from specc.quantize.quantized_from_float import quantized_from_float
from tests.quantized import INT4, INT7, INT8, head_row, lowered
from tests.tiny_engines import source_from_sizes
from tests.tiny_models import TinyLlama


@pytest.mark.parametrize("element", [INT4, INT8, INT7], ids=lambda form: form.element)
def test_rows_of_a_tied_embedding_are_looked_up_in_the_heads_codes(tmp_path: Path, element: WeightFormat) -> None:
    sizes = TinyLlama(tie_word_embeddings=True)
    rows = (head_row(element, tied=True),)
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
