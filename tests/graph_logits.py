"""Logits of a canonical target graph over a tiny model's weights, before and after a pass."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import onnxruntime

from tests.tiny_models import TinyLlama, tensors_from_sizes


def with_data(model: ir.Model, sizes: TinyLlama) -> bytes:
    tensors = tensors_from_sizes(sizes)
    for name, value in model.graph.initializers.items():
        if value.const_value is None:
            value.const_value = ir.tensor(tensors[name], name=name)
    return ir.to_proto(model).SerializeToString()


def logits_of(model: bytes, sizes: TinyLlama) -> np.ndarray:
    rng = np.random.default_rng(0)
    session = onnxruntime.InferenceSession(model)
    cache = (2, sizes.num_key_value_heads, 64, sizes.head_dim)
    inputs = {item.name: np.zeros(cache, np.float32) for item in session.get_inputs() if "cache" in item.name}
    inputs |= {name: rng.standard_normal(cache).astype(np.float32) for name in inputs}
    inputs |= {
        "input_ids": rng.integers(0, 259, (2, 5)),
        "num_tokens": np.array([5, 3]),
        "past_lengths": np.array([30, 7]),
        "logit_rows": np.array([[0, 1, 4], [0, 1, 2]]),
        "num_draft": np.array([2, 2]),
    }
    return session.run(["logits"], inputs)[0]
