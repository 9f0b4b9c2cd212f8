from __future__ import annotations

import numpy as np
import pytest

from specc.graph.decoder import target_graph
from specc.lower.attention_shape import attentions
from specc.lower.repeat_heads import LEAST_HEADS, REPEAT_HEADS
from tests.graph_logits import logits_of, with_data
from tests.tiny_engines import facts_from_sizes, tiny_graph_plan
from tests.tiny_models import TinyLlama


@pytest.mark.parametrize(("heads", "kv_heads"), [(1, 1), (2, 1), (2, 2), (3, 1), (3, 3), (4, 2), (6, 1)])
def test_logits_stay_to_the_bit_and_attention_has_four_heads_or_more(heads: int, kv_heads: int) -> None:
    sizes = TinyLlama(num_attention_heads=heads, num_key_value_heads=kv_heads, head_dim=16)
    plan = tiny_graph_plan(acceptance="greedy")
    model = target_graph(facts_from_sizes(sizes), plan, "logits")
    before = with_data(model, sizes)
    REPEAT_HEADS.apply(model, plan)
    after = with_data(model, sizes)
    np.testing.assert_array_equal(logits_of(after, sizes), logits_of(before, sizes))
    made = list(attentions(model))
    assert len(made) == sizes.num_hidden_layers
    for attention in made:
        assert (attention.heads == heads) == (heads >= LEAST_HEADS)
        assert LEAST_HEADS <= attention.heads < 2 * LEAST_HEADS
        assert attention.heads % attention.kv_heads == 0
        assert attention.kv_heads == kv_heads
