"""What the plan decides where the recipe does not say, and that it says so."""

from __future__ import annotations

import dataclasses

import pytest

from specc.bundle.drafts import NgramDraftSpec, SuffixDraftSpec
from specc.bundle.record import json_from_record, record_from_json
from specc.plan.make import plan_from_recipe, plan_text
from specc.plan.plan import Plan
from specc.recipe.schema import Recipe
from tests.stated_source import SMOLLM2_FACTS, SMOLLM2_TOKENS, StatedSource

BASE = {"recipe": 1, "name": "x", "target": {"model": "m"}, "draft": "ngram", "gpu": "cpu"}


def planned(source: StatedSource | None = None, **keys) -> Plan:
    return plan_from_recipe(Recipe.model_validate({**BASE, **keys}), source or StatedSource())


def with_tokens(**stated) -> StatedSource:
    return StatedSource(tokens=dataclasses.replace(SMOLLM2_TOKENS, **stated))


def with_facts(**stated) -> StatedSource:
    return StatedSource(facts=dataclasses.replace(SMOLLM2_FACTS, **stated))


def test_a_plan_is_a_record_and_the_same_every_time() -> None:
    plan = planned(features=["token_logprobs"])
    assert record_from_json(Plan, json_from_record(plan)) == plan
    assert plan_text(planned(features=["token_logprobs"])) == plan_text(plan)


@pytest.mark.parametrize(
    ("gpu", "backend", "dtype", "capabilities"),
    [("cpu", "onnxruntime", "f32", ()), ("rtx-3090", "tensorrt-rtx", "f16", ("8.6",)),
     ("gb10", "tensorrt-rtx", "f16", ("12.1",))],
)  # fmt: skip
def test_backend_and_scheme_follow_the_gpu(gpu, backend, dtype, capabilities) -> None:
    plan = planned(gpu=gpu)
    assert (plan.backend.name, plan.graph.compute_dtype) == (backend, dtype)
    assert plan.backend.compute_capabilities == capabilities
    assert plan.target.scheme == dtype
    assert [note.split(":")[0] for note in plan.notes[:2]] == [f"backend {backend}", f"scheme {dtype}"]


def test_suffix_and_ngram_choices_reach_the_runtime() -> None:
    suffix = planned(draft={"kind": "suffix", "max_depth": 32, "scope": "request"}).draft
    assert suffix == SuffixDraftSpec("suffix", 32, 1.0, 0.0, 0.1, "request", 65536)
    ngram = planned(draft={"kind": "ngram", "match": "leftmost", "scope": "session", "session_tokens": 99}).draft
    assert ngram == NgramDraftSpec("ngram", 1, 4, "leftmost", "session", 99)
    assert planned(draft="suffix", gpu="l4").draft.scope == "session"


def test_an_unchecked_bundle_says_so() -> None:
    assert any(note.startswith("certify: off;") for note in planned(certify="off").notes)
    assert not any("certify" in note for note in planned(certify={"prompts": "mine.jsonl"}).notes)


def test_one_engine_for_several_generations() -> None:
    backend = {"name": "tensorrt-rtx", "compute_capabilities": ["12.0", "8.6", "8.9", "8.6"]}
    assert planned(gpu="rtx-4090", backend=backend).backend.compute_capabilities == ("8.6", "8.9", "12.0")


def test_capacity_is_static_only_on_tensorrt() -> None:
    cpu, rtx = planned().graph, planned(gpu="l4").graph
    assert cpu.capacity is None
    assert cpu.capacity_buckets[:9] == (64, 96, 128, 160, 192, 224, 256, 320, 384)
    assert cpu.capacity_buckets[-4:] == (1536, 1792, 2048, 2176)
    assert (rtx.capacity, rtx.capacity_buckets) == (2560, (2560,))


def test_logits_are_a_variant_on_the_cpu_and_an_output_on_gpus() -> None:
    features = ["logits", "token_logprobs"]
    cpu, rtx = planned(features=features), planned(gpu="l4", features=features)
    assert (cpu.graph.variants, cpu.graph.features) == (("main", "logits"), ("token_logprobs",))
    assert (rtx.graph.variants, rtx.graph.features) == (("main",), ("logits", "token_logprobs"))
    assert any(note.startswith("logits:") for note in cpu.notes)


def test_sampling_of_the_recipe_is_the_whole_of_it() -> None:
    source = with_tokens(temperature=0.6, top_p=0.9)
    sampling = planned(source, sampling={"temperature": 0.8}).sampling
    assert (sampling.temperature, sampling.top_p, sampling.source) == (0.8, 1.0, "recipe")


def test_sampling_comes_from_generation_config_else_is_greedy() -> None:
    stated = planned(with_tokens(temperature=0.6, top_k=40)).sampling
    assert (stated.temperature, stated.top_k, stated.top_p, stated.min_p) == (0.6, 40, 1.0, 0.0)
    assert stated.source == "generation_config"
    assert planned(with_tokens(top_p=0.9)).sampling.temperature == 1.0
    neutral = planned().sampling
    assert (neutral.temperature, neutral.source) == (0.0, "neutral")


def test_a_greedy_bundle_says_that_it_leaves_sampling_out() -> None:
    plan = planned(with_tokens(temperature=0.6), acceptance="greedy")
    assert (plan.sampling.temperature, plan.sampling.source, plan.graph.acceptance) == (0.0, "neutral", "greedy")
    assert any("temperature 0.6" in note and "not used" in note for note in plan.notes)


def test_candidates_end_at_the_tokenizers_vocabulary() -> None:
    assert planned(with_facts(vocab_size=512, emitted_vocab_size=500)).sampling.candidates == 500
    assert planned().graph.candidates == 1024


@pytest.mark.parametrize(
    ("stored", "gpu", "scheme", "words"),
    [("bf16", "l4", "f16", "Scheme bf16"), ("f32", "l4", "bf16", "rounds"), ("q4_1", "cpu", "f32", "q4_1 blocks"),
     ("f16", "l4", "f16", ""), ("bf16", "cpu", "f32", "")],
)  # fmt: skip
def test_a_change_of_dtype_is_noted(stored, gpu, scheme, words) -> None:
    notes = planned(with_facts(stored_dtype=stored), gpu=gpu, target={"model": "m", "scheme": scheme}).notes
    about = [note for note in notes if note.startswith("The checkpoint stores")]
    assert [words in note for note in about] == ([True] if words else [])
