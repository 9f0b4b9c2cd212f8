"""Quantized matrices in one file: each is quantized once, whatever the sizes of its parts; its error is measured."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from specc.lower.quantized_weights import QuantizedMatrix, kept_or_rounded, quantized_weights
from specc.plan.plan import WeightRow
from specc.progress import silent
from tests.quantized import INT4
from tests.tiny_engines import source_from_sizes
from tests.tiny_models import TinyLlama

ROW = WeightRow("*", "w4a16", INT4, "rtn")


def test_a_matrix_is_quantized_once(tmp_path: Path) -> None:
    source = source_from_sizes(tmp_path / "source", TinyLlama(intermediate_size=66, num_hidden_layers=2))
    names = [f"model.layers.{layer}.mlp.{part}_proj.weight" for layer in (0, 1) for part in ("gate", "up")]
    matrices = tuple(QuantizedMatrix(name, (name,), (66, 64), ROW) for name in names)
    asked: list[str] = []

    def quantize(source, name, row):
        asked.append(name)
        return kept_or_rounded(source, name, row)

    stored = quantized_weights(source, matrices, "onnxruntime", tmp_path, silent, quantize=quantize)
    assert asked == names
    assert stored[f"{names[0]}.scales"].nbytes % 64
    content = (tmp_path / "quantized.safetensors").read_bytes()
    for name in names:
        expected = kept_or_rounded(source, name, ROW).scales
        place = stored[f"{name}.scales"]
        found = np.frombuffer(content[place.offset : place.offset + place.nbytes], np.float32).reshape(66, 2)
        np.testing.assert_array_equal(found, expected)
