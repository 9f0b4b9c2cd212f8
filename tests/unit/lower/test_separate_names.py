"""Functions share no name with the graph: TensorRT's parser would take one value for the other."""

from __future__ import annotations

import pytest

from specc.graph.decoder import target_graph
from specc.lower.passes import apply_passes
from tests.tiny_engines import facts_from_sizes, tiny_graph_plan
from tests.tiny_models import TinyLlama


@pytest.mark.parametrize("acceptance", ["greedy", "coupled", "rejection", "block"])
def test_no_value_of_a_function_has_a_name_of_the_graph(acceptance: str) -> None:
    features = ("token_logprobs", "logits")  # nodes after the call
    graph = tiny_graph_plan(capacity=64, capacity_buckets=(64,), acceptance=acceptance, features=features)
    model = target_graph(facts_from_sizes(TinyLlama()), graph, "main")
    apply_passes(model, graph, "tensorrt-rtx")
    outer = {value.name for node in model.graph for value in node.outputs}
    inner = {value.name for function in model.functions.values() for node in function for value in node.outputs}
    assert inner
    assert not outer & inner
