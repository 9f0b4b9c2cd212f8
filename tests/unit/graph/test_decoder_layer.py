"""The graph's weights are exactly the tensors that the checkpoint stage demands, for every shape of layer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specc.checkpoint.facts import ExpertFacts, LayerFacts, ModelFacts, NormFacts, RopeFacts
from specc.checkpoint.tensor_set import shapes_from_facts
from specc.graph.decoder import target_graph
from specc.lower.bind_weights import shapes_of_weights
from tests.tiny_engines import facts_from_sizes, tiny_graph_plan
from tests.tiny_models import TinyLlama

FACTS = facts_from_sizes(TinyLlama())
LOCAL = RopeFacts(1e6, "none", 1.0, 1.0, 1.0, 0)
LAYERS = (LayerFacts(9, "local", experts=True), LayerFacts(0, "none", experts=False))
SHAPES = {
    "before": FACTS,
    "after, width": replace(FACTS, norms=NormFacts("after", query_key="width")),
    "around, head": replace(FACTS, norms=NormFacts("around", unit_offset=True, query_key="head")),
    "biases everywhere": replace(FACTS, attention_bias=True, attention_output_bias=True, mlp_bias=True),
    "experts": replace(FACTS, layers=LAYERS, local_rope=LOCAL, experts=ExpertFacts(3, 2, 40, norm_topk_prob=True)),
}


@pytest.mark.parametrize("name", SHAPES)
def test_weights_of_the_graph_are_the_tensors_of_the_facts(name: str) -> None:
    model = target_graph(SHAPES[name], tiny_graph_plan(), "main")
    assert shapes_of_weights(model) == dict(shapes_from_facts(SHAPES[name]))


def masks(facts: ModelFacts) -> int:
    model = target_graph(facts, tiny_graph_plan(), "main")
    return len({node.inputs[3] for node in model.graph if node.op_type == "Attention"})


def test_one_mask_a_window_and_one_table_a_rotary_embedding() -> None:
    facts = SHAPES["experts"]
    assert (masks(FACTS), masks(facts)) == (1, 2)
    model = target_graph(facts, tiny_graph_plan(), "main")
    tables = {name for name in model.graph.initializers if name.startswith("rotary")}
    assert tables == {"rotary.cos", "rotary.sin", "rotary.local.cos", "rotary.local.sin"}
    rotated = [node for node in model.graph if node.op_type == "RotaryEmbedding"]
    assert len(rotated) == 2, "one layer has none"
