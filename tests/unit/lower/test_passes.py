from __future__ import annotations

import pytest

from specc.errors import SpeccBug
from specc.graph.decoder import target_graph
from specc.lower import passes
from specc.lower.lowering_pass import LoweringPass
from specc.lower.passes import PASSES, apply_passes
from tests.tiny_engines import facts_from_sizes, tiny_graph_plan
from tests.tiny_models import TinyLlama


def test_an_unknown_back_end_lists_the_known_ones() -> None:
    plan = tiny_graph_plan()
    with pytest.raises(SpeccBug, match="no passes for back end llama; there are passes for onnxruntime, tensorrt-rtx"):
        apply_passes(target_graph(facts_from_sizes(TinyLlama()), plan, "main"), plan, "llama")


def test_a_pass_whose_requirement_nothing_ensures_is_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    needy = LoweringPass("needy", ("peace",), (), lambda _model, _graph: None)
    monkeypatch.setitem(passes.PASSES, "onnxruntime", (needy,))
    plan = tiny_graph_plan()
    with pytest.raises(SpeccBug, match="pass needy requires peace"):
        apply_passes(target_graph(facts_from_sizes(TinyLlama()), plan, "main"), plan, "onnxruntime")


@pytest.mark.parametrize("backend", PASSES)
def test_the_check_of_operators_is_the_last_pass(backend: str) -> None:
    assert PASSES[backend][-1].name == "check_operators"
    names = [item.name for item in PASSES[backend]]
    assert len(set(names)) == len(names)
