"""Attention as one operator: the same logits, and the same bits for a token in every call that computes it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from specc.errors import SpeccBug
from specc.graph.decoder import target_graph
from specc.lower.join_products import JOIN_PRODUCTS
from specc.lower.use_groupqueryattention import USE_GROUPQUERYATTENTION
from specc.plan.plan import GraphPlan
from specc.runtime.call_costs import CallShape
from specc.runtime.request import NEUTRAL
from specc.runtime.runners.onnxruntime import OnnxRuntimeRunner
from specc.runtime.target_call import IdleRow, Row, inputs_from_rows
from tests.graph_logits import logits_of, with_data
from tests.quantized import INT8, quantized_rows
from tests.tiny_engines import facts_from_sizes, tiny_engines, tiny_graph_plan
from tests.tiny_models import TinyLlama

LENGTH = 40
IDS = tuple(int(i) for i in np.random.default_rng(3).integers(0, 250, LENGTH))


def fused_plan(**keys: object) -> GraphPlan:
    return replace(tiny_graph_plan(**{"acceptance": "greedy", **keys}), attention="fused")


@pytest.mark.parametrize(
    "sizes",
    [
        TinyLlama(num_attention_heads=4, num_key_value_heads=2),
        TinyLlama(num_attention_heads=4, num_key_value_heads=1, attention_bias=True),
        TinyLlama(num_attention_heads=2, num_key_value_heads=2),
    ],
    ids=["grouped", "one cache head, biases", "as many heads as cache heads"],
)
@pytest.mark.parametrize("joined", [False, True], ids=["products apart", "one product"])
def test_logits_stay_those_of_the_operators_apart(sizes: TinyLlama, joined: bool) -> None:
    plan = fused_plan(weights=quantized_rows() if joined else ())
    model = target_graph(facts_from_sizes(sizes), plan, "logits")
    before = with_data(model, sizes)
    plain = replace(plan, weights=())
    USE_GROUPQUERYATTENTION.apply(model, plain)
    after = with_data(model, sizes)
    np.testing.assert_allclose(logits_of(after, sizes), logits_of(before, sizes), rtol=1e-5, atol=1e-5)
    if joined:
        model = target_graph(facts_from_sizes(sizes), plan, "logits")
        JOIN_PRODUCTS.apply(model, plan)
        USE_GROUPQUERYATTENTION.apply(model, plan)
    found = Counter(node.op_type for node in model.graph.all_nodes())
    layers = sizes.num_hidden_layers
    assert found["GroupQueryAttention"] == layers
    for gone in ("Attention", "TensorScatter", "RotaryEmbedding", "Transpose", "LessOrEqual"):
        assert gone == "Transpose" or not found[gone], f"{gone} is left"
    widths = {node.inputs[1] is None for node in model.graph if node.op_type == "GroupQueryAttention"}
    assert widths == {joined and not sizes.attention_bias}, "one input where one product gives all three"


@pytest.mark.parametrize("features", [("token_logprobs",), ("logits",), ("logits", "token_logprobs")])
@pytest.mark.parametrize("acceptance", ["greedy", "coupled", "rejection", "block"])
def test_it_goes_with_every_output_and_mode(tmp_path: Path, features: tuple[str, ...], acceptance: str) -> None:
    plan = fused_plan(weights=quantized_rows(), acceptance=acceptance, features=features, variants=("main",))
    engines = tiny_engines(tmp_path, graph=plan)  # which runs each engine once
    assert set(features) <= {tensor.name for tensor in engines.specs[0].outputs}
    model = ir.load(engines.folder / engines.specs[0].file)
    names = [value.name for node in model.graph.all_nodes() for value in node.outputs if value.name]
    assert len(set(names)) == len(names), "a name that is given twice"


def test_a_native_plan_leaves_the_graph_alone() -> None:
    plan = tiny_graph_plan(acceptance="greedy")
    model = target_graph(facts_from_sizes(TinyLlama()), plan, "main")
    USE_GROUPQUERYATTENTION.apply(model, plan)
    assert not any(node.op_type == "GroupQueryAttention" for node in model.graph)


def test_a_layer_that_rotates_otherwise_is_a_bug() -> None:
    plan, facts = fused_plan(), facts_from_sizes(TinyLlama())
    partly = replace(facts, rope=replace(facts.rope, rotary_dim=facts.head_dim // 2))
    model = target_graph(partly, plan, "main")
    with pytest.raises(SpeccBug, match="rotated alike, and whole"):
        USE_GROUPQUERYATTENTION.apply(model, plan)


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> OnnxRuntimeRunner:
    """A runner of the logits variant whose products give a row the same bits at any number of rows, on any CPU."""
    plan = fused_plan(weights=quantized_rows(INT8), capacity_buckets=(16, 32, 64))
    return tiny_engines(tmp_path_factory.mktemp("fused"), graph=plan).runner("logits")


def logits_after(runner: OnnxRuntimeRunner, chunks: list[tuple[int, ...]], *, beside: int) -> np.ndarray:
    """Return the logits [LENGTH, V] of IDS, fed as each slot's chunks say to slots 0 and 1; slot 2 idles.

    Args:
        runner: its caches hold what the last example left.
        chunks: token counts of the calls of slot 0 and of slot 1.
        beside: tokens that slot 2 holds.
    """
    runner.reserve(3, 8)
    runner.caches.used[:] = 0
    done, found = [0, 0], [[], []]
    if beside:
        step(runner, [IdleRow(0), IdleRow(0), Row(IDS[:beside], (), 0, NEUTRAL)])
    kept = {name: array[2, :, :beside].copy() for name, array in runner.caches.arrays.items()}
    for counts in zip(*chunks, strict=True):
        rows: list[Row | IdleRow] = []
        for slot, count in enumerate(counts):
            ids = IDS[done[slot] : done[slot] + count]
            rows.append(Row(ids[:1], ids[1:], done[slot], NEUTRAL) if ids else IdleRow(done[slot]))
        logits = step(runner, [*rows, IdleRow(beside)])
        for slot, row in enumerate(rows):
            if isinstance(row, Row):
                found[slot].append(logits[slot, : row.tokens])
                done[slot] += row.tokens
    for name, array in kept.items():
        np.testing.assert_array_equal(runner.caches.arrays[name][2, :, :beside], array, err_msg=f"{name} of the idle")
    first, second = (np.concatenate(parts) for parts in found)
    np.testing.assert_array_equal(first, second, err_msg="two slots with the same tokens")
    return first


def step(runner: OnnxRuntimeRunner, rows: list[Row | IdleRow]) -> np.ndarray:
    tokens = max((row.tokens for row in rows if isinstance(row, Row)), default=1)
    runner.reserve(3, max(row.past for row in rows) + tokens)
    return runner.step(0, inputs_from_rows(runner.spec, CallShape(3, tokens, tokens), rows))["logits"]


def parts_of(length: int) -> st.SearchStrategy[tuple[int, ...]]:
    """Draw token counts of calls that add up to a length; the row idles where one is 0."""
    counts = st.lists(st.integers(0, 17), min_size=1, max_size=60)
    return counts.map(lambda drawn: _cut(drawn, length))


def _cut(drawn: list[int], length: int) -> tuple[int, ...]:
    parts, left = [], length
    for count in drawn:
        parts.append(min(count, left))
        left -= parts[-1]
    return (*parts, *[1] * left)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(first=parts_of(LENGTH), second=parts_of(LENGTH), beside=st.integers(0, 9))
def test_a_token_gets_the_same_bits_however_calls_are_cut(
    runner: OnnxRuntimeRunner, first: tuple[int, ...], second: tuple[int, ...], beside: int
) -> None:
    width = max(len(first), len(second))
    chunks = [(*counts, *[0] * (width - len(counts))) for counts in (first, second)]
    found = logits_after(runner, chunks, beside=beside)
    assert np.isfinite(found).all()
    alone = logits_after(runner, [(1,) * LENGTH, (1,) * LENGTH], beside=0)
    np.testing.assert_array_equal(found, alone)
