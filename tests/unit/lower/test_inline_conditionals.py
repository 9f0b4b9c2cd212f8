from __future__ import annotations

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest

from specc.errors import SpeccBug
from specc.graph.builder import Builder, declared
from specc.graph.verify import verify_graph
from specc.lower.inline_conditionals import INLINE_CONDITIONALS
from tests.tiny_engines import tiny_graph_plan

VOCAB, B, S, R = 90, 4, 7, 5


def run(model: ir.Model, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    return onnxruntime.InferenceSession(ir.to_proto(model).SerializeToString()).run(None, inputs)


def verify_inputs(rng: np.random.Generator, temperature: list[float], top_k: list[int]) -> dict[str, np.ndarray]:
    return {
        "logits": (3 * rng.standard_normal((B, R, VOCAB))).astype(np.float32),
        "input_ids": rng.integers(0, VOCAB, size=(B, S)),
        "num_tokens": np.array([0, 1, 5, 7]),
        "past_lengths": rng.integers(0, 50, size=B),
        "logit_rows": np.array([[0] * R, [0] * R, [0, 1, 2, 3, 4], [2, 3, 4, 5, 6]]),
        "num_draft": np.array([0, 0, 4, 4]),
        "temperature": np.array(temperature, dtype=np.float32),
        "top_k": np.array(top_k),
        "top_p": np.ones(B, dtype=np.float32),
        "min_p": np.zeros(B, dtype=np.float32),
        "seed": rng.integers(0, 1 << 32, size=B),
    }


@pytest.mark.parametrize(
    ("temperature", "top_k"),
    [([0.0] * B, [0] * B), ([0.8] * B, [0] * B), ([0.8] * B, [9] * B), ([0.0, 1.0, 0.7, 0.0], [0, 0, 9, 9])],
)
def test_picks_stay_the_same_without_conditionals(temperature: list[float], top_k: list[int]) -> None:
    plan = tiny_graph_plan(candidates=32)
    model = verify_graph(plan, VOCAB)
    inputs = verify_inputs(np.random.default_rng(4), temperature, top_k)
    before = run(model, inputs)
    assert any(node.op_type == "If" for function in model.functions.values() for node in function)
    INLINE_CONDITIONALS.apply(model, plan)
    assert not any(node.op_type == "If" for function in model.functions.values() for node in function.all_nodes())
    for want, got in zip(before, run(model, inputs), strict=True):
        np.testing.assert_array_equal(got, want)


def test_nested_conditionals_and_a_graph_output() -> None:
    def branch(builder: Builder, value: ir.Value) -> ir.Graph:
        return builder.graph("branch", (), (value,))

    flags = [declared(name, "bool", ()) for name in ("outer", "inner")]
    x = declared("x", "i64", (2,))
    main = Builder()
    then, otherwise = main.branch(), main.branch()
    deep, flat = then.branch(), then.branch()
    inner = then.op(
        "If",
        flags[1],
        name="inner_if",
        then_branch=branch(deep, deep.op("Add", x, deep.i64(10), name="plus_ten")),
        else_branch=branch(flat, flat.op("Neg", x, name="negative")),
    )
    result = main.op(
        "If",
        flags[0],
        name="result",
        then_branch=branch(then, inner),
        else_branch=branch(otherwise, otherwise.op("Identity", x, name="same")),
    )
    result.type, result.shape = ir.TensorType(ir.DataType.INT64), ir.Shape((2,))
    model = ir.Model(main.graph("main", (*flags, x), (result,)), ir_version=11)
    INLINE_CONDITIONALS.apply(model, tiny_graph_plan())
    assert model.graph.outputs[0].name == "result"
    assert {node.op_type for node in model.graph.all_nodes()} == {"Constant", "Add", "Neg", "Identity", "Where"}
    values = np.array([1, 2])
    for outer, inner_flag, want in ((True, True, [11, 12]), (True, False, [-1, -2]), (False, True, [1, 2])):
        got = run(model, {"outer": np.array(outer), "inner": np.array(inner_flag), "x": values})[0]
        assert got.tolist() == want


def test_a_loop_is_a_bug() -> None:
    builder = Builder()
    x = declared("x", "i64", ())
    body = Builder()
    step, go, carried = (declared(n, d, ()) for n, d in (("step", "i64"), ("go", "bool"), ("carried", "i64")))
    loop_body = body.graph("body", (step, go, carried), (body.op("Identity", go), body.op("Add", carried, step)))
    out = builder.op("Loop", x, None, x, name="spin", body=loop_body)
    model = ir.Model(builder.graph("main", (x,), (out,)), ir_version=11)
    with pytest.raises(SpeccBug, match="control flow that cannot be inlined: spin"):
        INLINE_CONDITIONALS.apply(model, tiny_graph_plan())
