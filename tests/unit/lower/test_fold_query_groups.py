from __future__ import annotations

import numpy as np
import pytest

from specc.errors import SpeccBug
from specc.graph.decoder import target_graph
from specc.lower.fold_query_groups import FOLD_QUERY_GROUPS
from tests.graph_logits import logits_of, with_data
from tests.tiny_engines import facts_from_sizes, tiny_graph_plan
from tests.tiny_models import TinyLlama


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
