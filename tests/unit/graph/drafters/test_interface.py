"""The tensors of draft engines are those of docs/engine-abi.md."""

from __future__ import annotations

import pytest

from specc.graph.drafters.interface import draft_interface
from specc.graph.drafters.model import draft_graph
from specc.speculation.modes import MODES
from tests.tiny_engines import facts_from_sizes, tiny_graph_plan
from tests.tiny_models import TinyLlama

FACTS = facts_from_sizes(TinyLlama())
ALWAYS = ["input_ids", "num_tokens", "past_lengths"]
SAMPLING = ["temperature", "top_k", "top_p", "min_p", "seed"]


def names(tensors) -> list[str]:
    return [tensor.name for tensor in tensors if "cache" not in tensor.name]


@pytest.mark.parametrize("acceptance", MODES)
def test_inputs_and_outputs_follow_the_acceptance_mode(acceptance) -> None:
    interface = draft_interface(FACTS, tiny_graph_plan(role="draft", acceptance=acceptance))
    assert names(interface.inputs) == ALWAYS + (SAMPLING if acceptance != "greedy" else [])
    drawn = ["q_ids", "q_probs"] if acceptance in ("rejection", "block") else []
    assert names(interface.outputs) == ["next_token", *drawn]
    assert {tensor.name: tensor.shape for tensor in interface.outputs}.get("q_ids") in (None, ("B", 64))
    assert [cache.layer for cache in interface.caches] == [0, 0, 1, 1]


@pytest.mark.parametrize("acceptance", MODES)
def test_the_graph_has_these_tensors_and_its_functions(acceptance) -> None:
    graph = tiny_graph_plan(role="draft", acceptance=acceptance)
    model, interface = draft_graph(FACTS, graph), draft_interface(FACTS, graph)
    assert [value.name for value in model.graph.inputs] == [tensor.name for tensor in interface.inputs]
    assert [value.name for value in model.graph.outputs] == [tensor.name for tensor in interface.outputs]
    assert len(model.functions) == (1 if acceptance == "greedy" else 2)
