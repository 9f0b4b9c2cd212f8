"""Calls on a CPU: products of a plan are those of its graph, seconds are the sum that docs/planning.md states."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import onnx
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specc.bundle.manifest import LimitsSpec
from specc.checkpoint.facts import ExpertFacts, LayerFacts
from specc.plan.calls import calls_from_model
from specc.plan.cost import CostModel
from specc.plan.cpu import CALL_NODES, FUSED_LAYER_NODES, LAYER_NODES, PICK_BYTES, WALKS, cpu_seconds
from specc.plan.device import device_from_machine
from specc.plan.limits import bucket_of, buckets_from_capacity
from specc.plan.products import Products, products_from_facts, usual_format
from specc.plan.roofline import call_seconds
from specc.plan.shape import shape_from_facts
from specc.plan.work_cost import WorkCost, WorkTerms
from tests.cpu_machine import machine_from_rates
from tests.published_speedups import QWEN3_1_7B
from tests.quantized import lowered, quantized_rows
from tests.stated_source import SMOLLM2_FACTS
from tests.tiny_engines import facts_from_sizes, tiny_graph_plan
from tests.tiny_models import TinyLlama

CPU = machine_from_rates(20e9, 100e9)
LIMITS = LimitsSpec(4, 1024, 1024, 2048, 128, 8, 5)
W4 = shape_from_facts(SMOLLM2_FACTS, "w4a16", "f32")
EXPERTS = replace(
    SMOLLM2_FACTS,
    experts=ExpertFacts(16, 2, 128, norm_topk_prob=True),
    layers=(LayerFacts(0, "main", experts=True),) * 30,
)


def test_quantized_matrices_of_one_input_are_one_product() -> None:
    assert set(W4.products) == {
        Products("body", "int4", 576, 576 + 2 * 192, 30),
        Products("body", "int4", 576, 576, 30),
        Products("body", "int4", 576, 2 * 1536, 30),
        Products("body", "int4", 1536, 576, 30),
        Products("head", "int7", 576, 49152, 1),
    }


def test_matrices_of_floats_and_those_with_a_bias_stay_apart() -> None:
    plain = products_from_facts(SMOLLM2_FACTS, usual_format("f32"))
    assert {p.element for p in plain} == {"f32"}
    assert sum(p.count for p in plain) == 7 * 30 + 1
    biased = products_from_facts(replace(SMOLLM2_FACTS, attention_bias=True), usual_format("w4a16"))
    assert sum(p.count for p in biased) == 6 * 30 + 1


@pytest.mark.parametrize("scheme", ["f32", "w8a16", "w4a16"])
@pytest.mark.parametrize("facts", [SMOLLM2_FACTS, QWEN3_1_7B, EXPERTS], ids=["tied", "untied", "experts"])
def test_no_weight_is_missed(scheme: str, facts) -> None:
    shape = shape_from_facts(facts, scheme, "f32")
    weights = {part: sum(p.weights for p in shape.products if p.part == part) for part in ("body", "expert", "head")}
    assert weights == {"body": shape.body, "expert": shape.experts * shape.expert_weights, "head": shape.head}


def test_a_plan_s_own_formats_are_followed() -> None:
    graph = tiny_graph_plan(weights=quantized_rows(tied=True))
    assert products_from_facts(SMOLLM2_FACTS, graph.format_of) == W4.products


@pytest.mark.parametrize(
    ("attention", "operator", "nodes"),
    [("native", "Attention", LAYER_NODES), ("fused", "GroupQueryAttention", FUSED_LAYER_NODES)],
)
@pytest.mark.parametrize("rows", [(), quantized_rows()], ids=["f32", "w4a16"])
def test_products_and_operators_are_those_that_the_library_runs(rows, attention, operator, nodes, tmp_path) -> None:
    """Of one layer, told by models of two and of three, after ONNX Runtime has fused what it fuses."""
    run = [_operators(tmp_path, layers, rows, attention) for layers in (2, 3)]
    layer = run[1] - run[0]
    sizes = TinyLlama(num_hidden_layers=1)
    products = products_from_facts(facts_from_sizes(sizes), tiny_graph_plan(weights=rows).format_of)
    assert layer["MatMul"] + layer["MatMulNBits"] == sum(p.count for p in products if p.part == "body")
    assert layer[operator] == 1
    small = layer.total() - layer["MatMul"] - layer["MatMulNBits"] - 1
    assert small == pytest.approx(nodes, abs=2)
    # Bodies of conditionals run as well; where nothing is sampled few of them do.
    assert CALL_NODES / 2 < run[0].total() - 2 * layer.total() < CALL_NODES * 1.5


def _operators(folder, layers: int, rows, attention: str) -> Counter[str]:
    folder = folder / str(layers)
    folder.mkdir()
    path = lowered(folder, TinyLlama(num_hidden_layers=layers), rows, attention=attention).with_name("target.onnx")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.optimized_model_filepath = str(folder / "run.onnx")
    onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return Counter(node.op_type for node in onnx.load(folder / "run.onnx", load_external_data=False).graph.node)


@pytest.mark.parametrize(("batch", "tokens", "context"), [(1, 1, 128), (1, 9, 16), (4, 5, 400)])
def test_a_call_is_the_sum_of_its_operators(batch: int, tokens: int, context: int) -> None:
    rows = batch * tokens

    def product(inputs: int, outputs: int, bits: int) -> float:
        return 5e-6 + inputs * outputs * (bits / 8 / 20e9 + rows * 2 / 100e9)

    layer = product(576, 960, 5) + product(576, 576, 5) + product(576, 3072, 5) + product(1536, 576, 5)
    capacity = {16: 64, 128: 160, 400: 448}[context]
    turns = -(-batch * 3 // 2)  # of heads on two threads
    layer += 5e-6 + turns * 64 * capacity * (16 / 20e9 + tokens * 3 * 8 / 100e9)
    layer += LAYER_NODES * CPU.between.seconds(1, walked(), rows)
    picks = rows * 49152 * PICK_BYTES / 10e9
    expected = CALL_NODES * 4e-7 + 30 * layer + product(576, 49152, 8) + picks
    assert cpu_seconds(W4, CPU, batch, tokens, context, logit_rows=tokens) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("tokens", "context"), [(1, 128), (9, 400)])
def test_fused_attention_reads_each_query_head_s_own_rows_and_starts_less(tokens: int, context: int) -> None:
    fused = replace(W4, fused_attention_rows=1)
    apart, together = (cpu_seconds(shape, CPU, 1, tokens, context, logit_rows=tokens) for shape in (W4, fused))
    saved = (LAYER_NODES - FUSED_LAYER_NODES) * CPU.between.seconds(1, walked(), tokens)
    saved += CPU.attention.seconds(64, bucket_of(context + tokens), 3 * tokens, 2)  # 3 heads on 2 threads
    saved -= CPU.attention.seconds(64, context + tokens + 1, tokens + 1, 5)  # 9 heads, and one query more
    assert apart - together == pytest.approx(30 * saved, rel=1e-9)
    assert cpu_seconds(fused, CPU, 2, 1, 16, logit_rows=1) == cpu_seconds(W4, CPU, 2, 1, 16, logit_rows=1)


@pytest.mark.parametrize(("batch", "tokens"), [(1, 1), (1, 5), (9, 2)])
def test_attention_over_int8_costs_what_was_measured_over_int8(batch: int, tokens: int) -> None:
    int8 = shape_from_facts(SMOLLM2_FACTS, "w4a16", "int8")
    floats = replace(W4, fused_attention_rows=batch)
    found, expected = (cpu_seconds(shape, CPU, batch, tokens, 400, logit_rows=tokens) for shape in (int8, floats))
    turns = -(-batch * 9 // 2)  # of query heads on two threads, each with its own queries
    expected -= 30 * CPU.attention.seconds(64, 400 + tokens + 1, tokens + 1, turns)
    expected += 30 * CPU.int8_attention.seconds(64, 400 + tokens, tokens, turns)
    assert found == pytest.approx(expected, rel=1e-9)


def walked() -> float:
    """Return the elements that an operator of a layer walks over."""
    return WALKS * 30 * (576 + 960 + 576 + 576 + 576 + 3072 + 1536 + 576) / (30 * LAYER_NODES)


@given(
    batch=st.integers(1, 8),
    tokens=st.integers(1, 40),
    context=st.integers(0, 4000),
    facts=st.sampled_from([SMOLLM2_FACTS, QWEN3_1_7B, EXPERTS]),
    scheme=st.sampled_from(["f32", "w8a16", "w4a16"]),
)
def test_more_never_costs_less(batch: int, tokens: int, context: int, facts, scheme: str) -> None:
    shape, device = shape_from_facts(facts, scheme, "f32"), device_from_machine(CPU)
    seconds = call_seconds(shape, device, batch, tokens, context)
    assert seconds <= call_seconds(shape, device, batch + 1, tokens, context)
    assert seconds <= call_seconds(shape, device, batch, tokens + 1, context)
    assert seconds <= call_seconds(shape, device, batch, tokens, context + 1)


def test_experts_are_read_where_tokens_reach_them() -> None:
    """All experts of a machine that only reads cost what is reached of them, and as many operators whoever is."""
    shape = shape_from_facts(EXPERTS, "f32", "f32")
    reading = WorkCost((WorkTerms(1, 0.0, 0.0, 0.0, 1e-10),))
    machine = replace(CPU, products={"f32": reading}, node_seconds=0.0)
    machine = replace(machine, between=WorkCost((WorkTerms(1, 0.0, 0.0, 0.0, 0.0),)), attention=machine.between)
    machine = replace(machine, attention=machine.between, thread_bytes=1e30)
    for rows, reached in ((1, 2.0), (2, 16 * (1 - (14 / 16) ** 2))):
        expected = 1e-10 * (shape.body + reached * shape.expert_weights + shape.head)
        assert cpu_seconds(shape, machine, 1, rows, 0, logit_rows=rows) == pytest.approx(expected, rel=1e-9)
    one = replace(machine, node_seconds=1.0)
    added = cpu_seconds(shape, one, 1, 1, 0, logit_rows=1) - cpu_seconds(shape, machine, 1, 1, 0, logit_rows=1)
    assert added == pytest.approx(CALL_NODES + 12 * 16 * 30)


@given(rows=st.integers(1, 8000))
def test_attention_reads_the_length_that_a_runtime_binds(rows: int) -> None:
    assert bucket_of(rows) == next(size for size in buckets_from_capacity(1 << 14) if rows <= size)


def test_invariant_calls_are_padded_to_an_even_number_of_tokens() -> None:
    device = device_from_machine(CPU)
    plain = CostModel(W4, None, device, 128, 128)
    even = replace(plain, even=True)
    for batch in (1, 3):
        assert even.ar_seconds(batch) == plain.verify_seconds(batch, 1)
        assert even.verify_seconds(batch, 2) == plain.verify_seconds(batch, 3)
        assert even.verify_seconds(batch, 3) == plain.verify_seconds(batch, 3)
    assert even.verify_seconds(4, 2) == plain.verify_seconds(4, 2)


@pytest.mark.parametrize("scheme", ["f32", "w8a16", "w4a16"])
def test_calls_stand_under_the_roof(scheme: str) -> None:
    shape = shape_from_facts(SMOLLM2_FACTS, scheme, "f32")
    model = CostModel(shape, None, device_from_machine(CPU), 128, 128)
    calls = calls_from_model(model, LIMITS, 4)
    assert [roof.arithmetic for roof in calls.roofs] == ["f32" if scheme == "f32" else "int8"]
    assert calls.reached_bandwidth <= calls.bandwidth
    for point in calls.points:
        roof = max(roof.peak for roof in calls.roofs)
        assert point.flops / point.seconds <= min(roof, calls.bandwidth * point.flops / point.bytes)
