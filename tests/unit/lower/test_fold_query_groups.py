from __future__ import annotations

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest

from specc.errors import SpeccBug
from specc.graph.decoder import target_graph
from specc.lower.fold_query_groups import FOLD_QUERY_GROUPS
from tests.tiny_engines import facts_from_sizes, tiny_graph_plan
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


@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 2), (6, 1), (2, 2)])
def test_logits_stay_and_attention_has_one_query_head_per_cache_head(heads: int, kv_heads: int) -> None:
    sizes = TinyLlama(num_attention_heads=heads, num_key_value_heads=kv_heads)
    plan = tiny_graph_plan(acceptance="greedy")
    model = target_graph(facts_from_sizes(sizes), plan, "logits")
    before = with_data(model, sizes)
    FOLD_QUERY_GROUPS.apply(model, plan)
    after = with_data(model, sizes)
    np.testing.assert_allclose(logits_of(after, sizes), logits_of(before, sizes), rtol=1e-5, atol=1e-5)
    folded = [node for node in model.graph if str(node.name).endswith("attention.folded_query")]
    assert len(folded) == (sizes.num_hidden_layers if heads > kv_heads else 0)
    masks = {node.inputs[3] for node in model.graph if node.op_type == "Attention"}
    assert len(masks) == 1, "the widened mask is made once"


def test_a_query_without_a_known_shape_is_a_bug() -> None:
    plan = tiny_graph_plan(acceptance="greedy")
    model = target_graph(facts_from_sizes(TinyLlama()), plan, "main")
    attention = next(node for node in model.graph if node.op_type == "Attention")
    assert attention.inputs[0] is not None
    attention.inputs[0].shape = None
    with pytest.raises(SpeccBug, match="must state their shapes"):
        FOLD_QUERY_GROUPS.apply(model, plan)
