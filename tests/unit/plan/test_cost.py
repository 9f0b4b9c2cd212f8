"""The cost model: what must hold of every prediction, and formulas against their plain form."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specc.catalog.gpus import GPUS
from specc.checkpoint.facts import ExpertFacts, LayerFacts
from specc.plan.cost import Acceptance, CostModel
from specc.plan.device import (
    COMPILED,
    Efficiency,
    Gpu,
    Overheads,
    device_from_gpu,
)
from specc.plan.priors import PRIORS, acceptance_from_mal, prior_for
from specc.plan.roofline import call_seconds, prefill_seconds
from specc.plan.shape import distinct_experts, eagle3_shape, shape_from_facts
from specc.speculation.expected import geometric_expected_tokens
from tests.published_speedups import LLAMA_8B, QWEN3_1_7B, VICUNA_7B, llama_like

LLAMA_70B = llama_like(8192, 28672, 80, (64, 8), 128256)
SHAPE = shape_from_facts(LLAMA_8B, "f16", "f16")
SMALL = shape_from_facts(QWEN3_1_7B, "f16", "f16")
REAL = [row for row in GPUS.values() if row.name != "cpu"]
IDEAL = Gpu(1e12, {"f16": 1e15}, Efficiency(1, 1, 1), Overheads(0, 0, 0, 0), None, 1)


def on(gpu: str, count: int = 1) -> Gpu:
    device = device_from_gpu(GPUS[gpu], count)
    assert device is not None
    return device


def flat(low: float, mid: float, high: float) -> Acceptance:
    return Acceptance((low,), (mid,), (high,), "stated")


def test_an_ar_step_reads_every_weight_but_the_embedding_once() -> None:
    assert SHAPE.body == 32 * (2 * 4096**2 + 2 * 4096 * 1024 + 3 * 4096 * 14336)
    assert SHAPE.head == 4096 * 128256
    logits = 128256 * 8
    caches = (500 + 1) * 2 * 32 * 8 * 128 * 2
    expected = (2 * (SHAPE.body + SHAPE.head) + logits + caches) / 1e12
    assert call_seconds(SHAPE, IDEAL, 1, 1, 500) == pytest.approx(expected, rel=1e-12)


def test_many_tokens_cost_their_products() -> None:
    seconds = call_seconds(SHAPE, IDEAL, 1, 4096, 0)
    assert seconds > 2 * 4096 * (SHAPE.body + SHAPE.head) / 1e15
    assert prefill_seconds(SHAPE, IDEAL, 4096, 512) < 8 * seconds


@given(gpu=st.sampled_from(REAL), batch=st.integers(1, 256), tokens=st.integers(1, 32), context=st.integers(0, 100_000))
def test_more_of_anything_never_costs_less(gpu, batch, tokens, context) -> None:
    device = on(gpu.name)
    seconds = call_seconds(SHAPE, device, batch, tokens, context)
    assert seconds <= call_seconds(SHAPE, device, batch + 1, tokens, context)
    assert seconds <= call_seconds(SHAPE, device, batch, tokens + 1, context)
    assert seconds <= call_seconds(SHAPE, device, batch, tokens, context + 1)
    assert seconds >= device.overheads.call


@given(gpu=st.sampled_from(REAL), batch=st.integers(1, 512), mid=st.floats(0.01, 0.99), gamma=st.integers(0, 12))
def test_a_speedup_lies_inside_its_interval_and_gamma_zero_is_ar(gpu, batch, mid, gamma) -> None:
    model = CostModel(SHAPE, SMALL, on(gpu.name), 1024, 512)
    acceptance = flat(mid * 0.9, mid, min(1.0, mid * 1.1))
    interval = model.speedup_interval(acceptance, batch, gamma)
    assert interval.low <= interval.mid <= interval.high
    assert interval.mid <= gamma + 1
    best = model.best_gamma(acceptance, batch, 12)
    assert model.speedup(acceptance.mid, batch, best) >= interval.mid - 1e-12
    assert model.speedup(acceptance.mid, batch, 0) == 1.0


def test_break_even_is_where_the_gain_ends() -> None:
    model = CostModel(SHAPE, SMALL, on("rtx-4090"), 1024, 512)
    acceptance = model.break_even(1, 4)
    assert acceptance is not None
    assert model.speedup((acceptance,), 1, 4) == pytest.approx(1.0, abs=1e-9)
    assert model.break_even(1, 0) is None
    assert CostModel(SHAPE, SHAPE, on("rtx-4090"), 1024, 512).break_even(1, 4) is None


def test_the_crossover_is_the_first_batch_without_a_gain() -> None:
    model = CostModel(SHAPE, None, on("l4"), 256, 512)
    acceptance = flat(0.4, 0.5, 0.6)
    paying = model.paying_batches(acceptance, 8)
    assert paying is not None
    begin, end = paying
    assert begin == 1
    assert end is not None
    assert model.best_gamma(acceptance, end, 8) == 0
    assert model.best_gamma(acceptance, end - 1, 8) > 0
    assert model.paying_batches(flat(0.0, 0.0, 0.0), 8) is None
    for limit in (1, end - 1, end, end + 5):
        assert model.paying_batches(acceptance, 8, limit) == (1, end if limit >= end else None)
    assert CostModel(SHAPE, None, on("l4"), 100_000, 512).paying_batches(acceptance, 8) == (1, None)  # caches dominate


def test_experts_may_lose_alone_and_gain_together() -> None:
    """One text's drafts read more experts; many rows reach all of them anyhow."""
    facts = replace(
        LLAMA_8B, hidden_size=2048, num_hidden_layers=48, num_key_value_heads=4, head_dim=128,
        layers=(LayerFacts(0, "main", experts=True),) * 48,
        experts=ExpertFacts(num_experts=128, num_experts_per_tok=8, moe_intermediate_size=768, norm_topk_prob=True),
    )  # fmt: skip
    model = CostModel(shape_from_facts(facts, "fp8", "fp8"), None, on("h100-sxm-80gb", 2), 1024, 512)
    acceptance = flat(0.3, 0.43, 0.6)
    paying = model.paying_batches(acceptance, 8)
    assert paying is not None
    begin, end = paying
    assert begin > 1
    assert model.best_gamma(acceptance, 1, 8) == model.best_gamma(acceptance, begin - 1, 8) == 0
    assert model.best_gamma(acceptance, begin, 8) > 0
    assert end is None or end > begin


@pytest.mark.parametrize("batch", [1, 64])
def test_four_bits_lose_their_free_rows_first(batch) -> None:
    plain = CostModel(SHAPE, None, on("l4"), 256, 512)
    packed = CostModel(shape_from_facts(LLAMA_8B, "w4a16", "f16"), None, on("l4"), 256, 512)
    ratios = [model.verify_seconds(batch, 8) / model.ar_seconds(batch) for model in (plain, packed)]
    assert ratios[0] < ratios[1]
    assert packed.ar_seconds(1) < plain.ar_seconds(1)


def test_distinct_experts() -> None:
    assert distinct_experts(0, 0, 5) == 0
    assert distinct_experts(8, 2, 1) == pytest.approx(2.0, abs=1e-12)
    assert distinct_experts(8, 2, 2) == pytest.approx(3.5, abs=1e-12)
    assert distinct_experts(128, 8, 10_000) == pytest.approx(128, abs=1e-9)


def test_verifying_reads_more_experts_than_a_step() -> None:
    experts = ExpertFacts(num_experts=128, num_experts_per_tok=8, moe_intermediate_size=768, norm_topk_prob=True)
    layers = (LayerFacts(0, "main", experts=True),) * QWEN3_1_7B.num_hidden_layers
    shape = shape_from_facts(replace(QWEN3_1_7B, experts=experts, layers=layers), "f16", "f16")
    assert shape.expert_weights == 3 * 2048 * 768 * 28
    device = on("h100-sxm-80gb")
    sparse = call_seconds(shape, device, 1, 5, 100) / call_seconds(shape, device, 1, 1, 100)
    dense = call_seconds(SMALL, device, 1, 5, 100) / call_seconds(SMALL, device, 1, 1, 100)
    assert dense < 1.01
    assert sparse > 1.5


def test_devices_share_the_work_and_pay_for_it() -> None:
    one, four = (call_seconds(SHAPE, on("h100-sxm-80gb", count), 1, 1, 1000) for count in (1, 4))
    assert one / 4 < four < one


def test_two_sums_a_layer_between_devices_move_what_a_ring_moves() -> None:
    """By hand: 2 (n - 1) / n of 2-byte activations, 32 layers, two sums each of 8 us and 50 GB/s."""
    linked = replace(IDEAL, link_bytes=50e9, count=4)
    alone = replace(IDEAL, bandwidth_bytes=4e12, flops={"f16": 4e15})
    moved = 2 * 3 / 4 * 5 * 4096 * 2
    added = call_seconds(SHAPE, linked, 1, 5, 500) - call_seconds(SHAPE, alone, 1, 5, 500)
    assert added == pytest.approx(2 * 32 * (8e-6 + moved / 50e9), rel=1e-9)


def test_the_case_that_everybody_quotes() -> None:
    """70B and 7B at f16 on 3 TB/s, 4 drafts, acceptance 0.8: E = 3.36, c = 0.1, 2.4 times AR; AR at 47 ms a token."""
    device = replace(IDEAL, bandwidth_bytes=3e12)
    target, draft = (shape_from_facts(facts, "f16", "f16") for facts in (LLAMA_70B, VICUNA_7B))
    model = CostModel(target, draft, device, 1, 512)
    assert geometric_expected_tokens(0.8, 4) == pytest.approx(3.36, abs=0.005)
    assert model.ar_seconds(1) == pytest.approx(0.047, abs=0.001)
    assert model.drafting_seconds(1, 4) / 4 / model.ar_seconds(1) == pytest.approx(0.1, abs=0.006)
    assert model.speedup((0.8,) * 4, 1, 4) == pytest.approx(2.4, abs=0.05)


def test_types_that_a_device_lacks_run_in_wider_ones() -> None:
    device = on("a100-sxm-80gb")
    assert device.rate("fp8", unpacked=False) == device.rate("f16", unpacked=False)
    assert on("l40s").rate("fp8", unpacked=False) > on("l40s").rate("f16", unpacked=False)
    assert on("l40s").overheads == COMPILED


def test_an_eagle3_head_has_the_sizes_of_its_checkpoint() -> None:
    # Source: EAGLE-3 of Llama-3.1-8B: fc, q, k, v, o, gate, up, down, lm_head.
    head = eagle3_shape(LLAMA_8B, "bf16", "bf16")
    assert head.body == 4096 * 12288 + 8192 * (4096 + 1024 + 1024) + 4096 * 4096 + 3 * 4096 * 14336
    assert (head.head, head.vocab_size) == (32000 * 4096, 32000)


@given(st.floats(0.0, 0.999), st.integers(1, 16))
def test_acceptance_and_mal_are_inverse(acceptance, gamma) -> None:
    mal = geometric_expected_tokens(acceptance, gamma)
    assert geometric_expected_tokens(acceptance_from_mal(mal, gamma), gamma) == pytest.approx(mal, rel=1e-9)


@pytest.mark.parametrize("kind", PRIORS)
@pytest.mark.parametrize("workload", ["chat", "code", "math", "summarisation", "json"])
def test_every_prior_is_an_interval_with_a_source(kind, workload) -> None:
    prior = prior_for(kind, workload)
    assert prior is not None
    assert 1 < prior.low <= prior.mid <= prior.high <= prior.gamma + 1
    assert len(prior.source) > 20
    low, mid, high = prior.acceptances()
    assert 0 < low <= mid <= high < 1
    if workload not in PRIORS[kind]:
        assert "no measurement" in prior.source
        assert all(low <= row.acceptances()[0] for row in PRIORS[kind].values())


def test_a_kind_that_nobody_measured_has_no_prior() -> None:
    assert prior_for("self", "chat") is None
