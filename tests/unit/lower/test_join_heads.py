"""Heads of one product that are brought into order together."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from specc.lower import passes
from specc.lower.join_heads import JOIN_HEADS
from specc.plan.plan import WeightRow
from tests.quantized import INT8, logits_of, lowered, quantized_rows
from tests.tiny_models import TinyLlama

K_APART = (WeightRow("model.layers.*.k_proj.weight", "w8a16", INT8, "rtn"), *quantized_rows())


@pytest.mark.parametrize(
    ("sizes", "rows", "per_layer"),
    [
        (TinyLlama(), quantized_rows(), 2),
        (TinyLlama(num_attention_heads=2), quantized_rows(), 2),
        (TinyLlama(), K_APART, 3),
        (TinyLlama(attention_bias=True), quantized_rows(), 4),
    ],
    ids=["grouped", "as many heads as cache heads", "k in another format", "with biases"],
)
def test_logits_are_the_same_to_the_last_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sizes: TinyLlama, rows: tuple[WeightRow, ...], per_layer: int
) -> None:
    path = lowered(tmp_path, sizes, rows)
    transposes = [node for node in onnx.load(path, load_external_data=False).graph.node if node.op_type == "Transpose"]
    assert len(transposes) == per_layer * sizes.num_hidden_layers, "one of them leads out of attention"
    (tmp_path / "apart").mkdir()
    kept = tuple(item for item in passes.PASSES["onnxruntime"] if item is not JOIN_HEADS)
    monkeypatch.setitem(passes.PASSES, "onnxruntime", kept)
    apart = lowered(tmp_path / "apart", sizes, rows)
    np.testing.assert_array_equal(logits_of(path, sizes), logits_of(apart, sizes))
