"""Quantized matrices in one file: each is quantized once, whatever the sizes of its parts; its error is measured."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from specc.bundle.record import record_from_file
from specc.bundle.rounding import Rounding
from specc.lower.quantized_weights import QuantizedMatrix, kept_or_rounded, quantized_weights
from specc.plan.plan import WeightRow
from specc.progress import silent
from specc.quantize.quantized_from_float import quantized_from_float
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


def test_the_error_of_rounding_is_measured_by_class_and_the_worst_matrix_named(tmp_path: Path) -> None:
    source = source_from_sizes(tmp_path / "source", TinyLlama(num_hidden_layers=2))
    mlp = [f"model.layers.{layer}.mlp.down_proj.weight" for layer in (0, 1)]
    source.tensors[mlp[1]] = source.tensors[mlp[1]] ** 3  # a wider spread: coarser steps
    attention = "model.layers.0.self_attn.o_proj.weight"
    kept = "model.layers.1.self_attn.o_proj.weight"
    codes = quantized_from_float(source.tensors[kept], INT4, "rtn")
    source.quantized_formats = {kept: INT4}
    source.read_quantized = {kept: codes}.__getitem__  # type: ignore[method-assign]
    matrices = tuple(QuantizedMatrix(n, (n,), source.tensors[n].shape, ROW) for n in (*mlp, attention, kept))
    quantized_weights(source, matrices, "onnxruntime", tmp_path, silent, quantize=kept_or_rounded)
    rows = record_from_file(Rounding, tmp_path / "rounding.json").rounded

    def error(*names: str) -> float:
        given = np.concatenate([source.tensors[name].ravel() for name in names]).astype(np.float64)
        made = [quantized_from_float(source.tensors[name], INT4, "rtn").dequantized().ravel() for name in names]
        return float(np.sqrt(((np.concatenate(made) - given) ** 2).sum() / (given**2).sum()))

    assert [(row.weights, row.count, row.stored, row.worst) for row in rows] == [
        ("mlp", 2, "f32", mlp[1]),
        ("attention", 1, "f32", attention),
    ]
    assert [row.error for row in rows] == pytest.approx([error(*mlp), error(attention)], rel=1e-5)
    assert [row.worst_error for row in rows] == pytest.approx([error(mlp[1]), error(attention)], rel=1e-5)
    assert error(mlp[1]) > error(mlp[0])
