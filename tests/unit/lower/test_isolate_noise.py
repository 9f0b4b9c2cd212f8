from __future__ import annotations

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest

from specc.errors import SpeccBug
from specc.graph.verify import verify_graph
from specc.lower.isolate_noise import ISOLATE_NOISE
from specc.speculation.noise import Stream, gumbel, noise_bits
from tests.tiny_engines import tiny_graph_plan

NOISE = ("specc", "Noise", "")


def noise_session(function: ir.Function) -> onnxruntime.InferenceSession:
    """Return a session over a graph that only calls the function."""
    types = {"seed": ["B"], "position": ["B", "R"], "token": ["K"]}
    inputs = [ir.Value(name=n, type=ir.TensorType(ir.DataType.INT64), shape=ir.Shape(s)) for n, s in types.items()]
    node = ir.node("Noise", inputs, domain="specc")
    node.outputs[0].name, node.outputs[0].type = "gumbel", ir.TensorType(ir.DataType.FLOAT)
    graph = ir.Graph(inputs, node.outputs, nodes=[node], opset_imports={"": 24, "specc": 1}, name="noise")
    model = ir.Model(graph, ir_version=11, functions=[function])
    return onnxruntime.InferenceSession(ir.to_proto(model).SerializeToString())


def test_the_noise_keeps_its_bits_behind_the_barriers() -> None:
    plan = tiny_graph_plan()
    model = verify_graph(plan, 100)
    ISOLATE_NOISE.apply(model, plan)
    function = model.functions[NOISE]
    sums = [node for node in function if node.op_type == "CumSum"]
    assert len(sums) == 3
    assert function.outputs[0].producer() is function[len(function.graph) - 1]
    rng = np.random.default_rng(0)
    seed, token = rng.integers(0, 1 << 32, size=3), rng.integers(0, 1 << 17, size=50)
    position = rng.integers(0, 1 << 20, size=(3, 4))
    got = noise_session(function).run(None, {"seed": seed, "position": position, "token": token})[0]
    bits = noise_bits(seed[:, None, None], Stream.TARGET, position[:, :, None], token)
    # The logarithms of two libraries differ in the last place; a wrong step of the hash changes all of its bits.
    np.testing.assert_allclose(got, gumbel(bits), rtol=0, atol=2e-6)


def test_nothing_but_a_barrier_reads_what_is_isolated() -> None:
    plan = tiny_graph_plan()
    model = verify_graph(plan, 100)
    ISOLATE_NOISE.apply(model, plan)
    for value in model.functions[NOISE].inputs:
        users = {user.op_type for user, _ in value.uses()}
        assert users == {"Unsqueeze"}, value.name


def test_every_noise_of_a_graph_that_weighs_drafts_is_isolated() -> None:
    plan = tiny_graph_plan(acceptance="rejection")
    model = verify_graph(plan, 100)
    ISOLATE_NOISE.apply(model, plan)
    for name in ("AcceptNoise", "ResidualNoise"):
        assert len([node for node in model.functions["specc", name, ""] if node.op_type == "CumSum"]) == 3


def test_a_greedy_graph_is_left_alone_and_a_lost_function_is_a_bug() -> None:
    greedy = tiny_graph_plan(acceptance="greedy")
    model = verify_graph(greedy, 100)
    ISOLATE_NOISE.apply(model, greedy)
    assert NOISE not in model.functions
    with pytest.raises(SpeccBug, match="samples but has no function"):
        ISOLATE_NOISE.apply(model, tiny_graph_plan())
