from __future__ import annotations

from collections import Counter

import onnx_ir as ir
import pytest

from specc.errors import SpeccBug
from specc.graph.verify import verify_graph
from specc.lower.float64_noise import FLOAT64_NOISE
from tests.tiny_engines import tiny_graph_plan

NOISE = ("specc", "Noise", "")


def test_the_noise_loses_its_integer_divisions() -> None:
    """That the bits stay equal is shown in tests/numerics/test_verify_graph_noise.py."""
    plan = tiny_graph_plan()
    model = verify_graph(plan, 100)
    before = Counter(node.op_type for node in model.functions[NOISE])
    FLOAT64_NOISE.apply(model, plan)
    after = Counter(node.op_type for node in model.functions[NOISE])
    assert before["Mod"] > 20
    assert before["Div"] > 10
    assert after["Mod"] == after["Div"] == 0
    assert after["Floor"] > 20
    casts = [node.attributes["to"].as_int() for node in model.functions[NOISE] if node.op_type == "Cast"]
    assert set(casts) == {ir.DataType.DOUBLE, ir.DataType.FLOAT}


def test_every_noise_of_a_graph_that_weighs_drafts_is_changed() -> None:
    plan = tiny_graph_plan(acceptance="block")
    model = verify_graph(plan, 100)
    FLOAT64_NOISE.apply(model, plan)
    for name in ("AcceptNoise", "ResidualNoise"):
        assert not [node for node in model.functions["specc", name, ""] if node.op_type in {"Mod", "Div"}]
    assert NOISE not in model.functions


def test_a_greedy_graph_is_left_alone_and_a_lost_function_is_a_bug() -> None:
    greedy = tiny_graph_plan(acceptance="greedy")
    model = verify_graph(greedy, 100)
    FLOAT64_NOISE.apply(model, greedy)
    assert NOISE not in model.functions
    with pytest.raises(SpeccBug, match="samples but has no function"):
        FLOAT64_NOISE.apply(model, tiny_graph_plan())
