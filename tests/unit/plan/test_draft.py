"""What is planned for a draft model: nothing of it is inherited."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specc.bundle.drafts import ModelDraftSpec, SelfDraftSpec
from specc.bundle.record import json_from_record, record_from_json
from specc.checkpoint.facts import LayerFacts
from specc.plan.draft import build_plan_of_draft
from specc.plan.make import plan_from_recipe
from specc.plan.plan import Plan
from specc.recipe.schema import Recipe
from tests.published_speedups import LLAMA_8B
from tests.stated_source import SMOLLM2_FACTS, StatedSource

BASE = {"recipe": 1, "name": "x", "target": {"model": "m"}, "draft": {"kind": "model", "model": "d"}, "gpu": "cpu"}
SMALL = replace(SMOLLM2_FACTS, num_hidden_layers=4, hidden_size=128, intermediate_size=256, num_attention_heads=2,
                num_key_value_heads=1, max_position_embeddings=2048)  # fmt: skip


def planned(source: StatedSource | None = None, draft_source: StatedSource | None = None, **keys) -> Plan:
    recipe = Recipe.model_validate({**BASE, **keys})
    return plan_from_recipe(recipe, source or StatedSource(), draft_source or StatedSource(uri="d", facts=SMALL))


def test_a_plan_with_a_draft_model_is_a_record() -> None:
    plan = planned()
    assert record_from_json(Plan, json_from_record(plan)) == plan


def test_the_draft_keeps_a_precision_of_its_own() -> None:
    """C7: a scheme that the recipe does not state is the back end's default, never the target's."""
    gpu = {"gpu": "rtx-4090", "target": {"model": "m", "scheme": "bf16"}}
    plan = planned(**gpu)
    assert plan.draft_model is not None
    assert (plan.graph.compute_dtype, plan.draft_model.graph.compute_dtype) == ("bf16", "f16")
    assert any(note.startswith("draft.scheme f16: the recipe states none") for note in plan.notes)
    stated = planned(**gpu, draft={"kind": "model", "model": "d", "scheme": "bf16"})
    assert isinstance(stated.draft, ModelDraftSpec)
    assert stated.draft.scheme == "bf16"


def test_a_draft_of_a_shorter_context_has_a_cap() -> None:
    """C1: 2048 positions beside 8192."""
    limits = {"max_input": 4096, "max_output": 1024}
    plan = planned(limits=limits)
    assert isinstance(plan.draft, ModelDraftSpec)
    assert plan.draft.context == 2048
    assert "draft context 2048 of 5120 tokens: beyond it a request decodes autoregressively." in plan.notes
    assert plan.draft_model is not None
    assert plan.draft_model.graph.capacity_buckets[-1] >= 2048 + plan.limits.prefill_chunk


def test_vocabularies_that_differ_by_padding_are_cut_to_the_tokenizer() -> None:
    """A1: 152064 and 151936 rows over one tokenizer."""
    target = StatedSource(facts=replace(SMOLLM2_FACTS, vocab_size=152064, emitted_vocab_size=151665))
    draft = StatedSource(uri="d", facts=replace(SMALL, vocab_size=151936, emitted_vocab_size=151665))
    plan = planned(target, draft)
    assert plan.draft_model is not None
    assert plan.draft_model.model.facts.vocab_size == 151936
    assert plan.draft_model.model.facts.emitted_vocab_size == plan.target.facts.emitted_vocab_size == 151665
    assert any("151936 rows, the target has 152064" in note for note in plan.notes)


def test_the_memory_table_counts_the_draft() -> None:
    names = [item.name for item in planned().memory]
    assert {"draft weights: mlp", "draft kv cache"} <= set(names)


def test_an_unrolled_draft_has_a_variant_of_gamma_steps_and_room_for_them() -> None:
    keys = {"gamma": {"max": 8, "default": 5}, "gpu": "rtx-4090"}
    single = planned(**keys, draft={"kind": "model", "model": "d", "steps": "single"})
    plan = planned(**keys, draft={"kind": "model", "model": "d", "steps": "unrolled"})
    assert isinstance(plan.draft, ModelDraftSpec)
    assert plan.draft.steps == "unrolled"
    assert plan.draft_model is not None
    graph = plan.draft_model.graph
    assert (graph.variants, graph.steps) == (("main", "unrolled"), 5)
    assert [graph.steps_of(variant) for variant in graph.variants] == [1, 5]
    assert graph.capacity is not None
    assert graph.capacity >= plan.draft.context + max(plan.limits.prefill_chunk, 2) + 4
    built = build_plan_of_draft(plan)
    assert built is not None
    assert [profile.tokens for profile in built.backend.profiles_of("unrolled")] == [(1, 1, 2)]
    assert built.backend.profiles_of("main") == plan.draft_model.profiles
    assert any(note.startswith("draft steps: 5 drafts in one call") for note in plan.notes)
    assert "draft unrolled engine" in [item.name for item in plan.memory]
    assert single.draft_model is not None
    assert (single.draft_model.graph.variants, single.draft_model.graph.steps) == (("main",), 1)
    assert "draft unrolled engine" not in [item.name for item in single.memory]


def test_a_whole_step_lowers_the_unrolled_draft_and_builds_no_engine_of_it() -> None:
    keys = {"gamma": {"max": 8, "default": 5}, "gpu": "rtx-4090"}
    plan = planned(**keys, draft={"kind": "model", "model": "d", "steps": "whole"})
    assert isinstance(plan.draft, ModelDraftSpec)
    assert plan.draft.steps == "whole"
    assert plan.draft_model is not None
    graph = plan.draft_model.graph
    assert (graph.variants, graph.engine_variants, graph.steps, graph.whole) == (
        ("main", "unrolled"),
        ("main",),
        5,
        True,
    )
    assert [profile.tokens for profile in plan.backend.profiles_of("whole")] == [(1, 1, 2)]
    sizes = {item.name: item.bytes for item in plan.memory}
    copied = sum(size for name, size in sizes.items() if "weights" in name or "rotary tables" in name)
    assert sizes["draft whole-step engine"] == copied
    one = planned(gamma={"max": 8, "default": 1}, draft={"kind": "model", "model": "d", "steps": "whole"})
    assert one.draft_model is not None
    assert (one.draft_model.graph.steps, one.draft_model.graph.whole) == (1, True)
    none = planned(gamma=0, draft={"kind": "model", "model": "d", "steps": "whole"})
    assert none.draft_model is not None
    assert (none.draft_model.graph.variants, none.draft_model.graph.whole) == (("main",), False)
    assert any("so whole saves nothing" in note for note in none.notes)


def test_the_drafts_of_a_whole_step_cost_no_calls_of_their_own() -> None:
    """By the cost model; the prediction of a plan is about the engines that it builds."""
    keys = {"gamma": {"max": 8, "default": 4}, "gpu": "rtx-4090"}
    plans = [planned(**keys, draft={"kind": "model", "model": "d", "steps": steps}) for steps in ("single", "whole")]
    apart, whole = ([line.speedup.mid for line in plan.prediction.gammas] for plan in plans)  # type: ignore[union-attr]
    assert all(one < other for one, other in zip(apart, whole, strict=True))


def plan_of_layers(layers: int, target: StatedSource | None = None) -> Plan:
    recipe = Recipe.model_validate({**BASE, "draft": {"kind": "self", "layers": layers}})
    return plan_from_recipe(recipe, target or StatedSource())


def test_the_first_layers_are_the_targets() -> None:
    windows = tuple(LayerFacts(window=w, rope="main", experts=False) for w in (0, 16) * 15)
    target = StatedSource(facts=replace(SMOLLM2_FACTS, layers=windows))
    plan = plan_of_layers(3, target)
    assert plan.draft == SelfDraftSpec("self", 3, plan.limits.max_length)
    assert plan.draft_model is None
    assert plan.graph.early_layers == 3
    (item,) = [item for item in plan.memory if item.name.startswith("draft")]
    assert (item.bytes, item.detail) == (0, "the target's first 3 layers and head, held once")
    others = [other for other in plan.memory if other is not item]
    assert others == list(planned(target, draft={"kind": "ngram"}).memory)
    assert planned().graph.early_layers == 0


@pytest.mark.parametrize(("gpu", "stated", "support"), [
    ("cpu", None, 1024), ("cpu", 64, 64), ("cpu", "all", 49152), ("rtx-4090", None, 64), ("rtx-4090", 512, 512),
])  # fmt: skip
def test_a_draft_is_drawn_from_as_many_ids_as_the_recipe_or_the_back_end_says(gpu, stated, support) -> None:
    draft = {"kind": "model", "model": "small"} | ({} if stated is None else {"support": stated})
    plan = planned(acceptance="rejection", gpu=gpu, draft=draft)
    assert plan.draft_model is not None
    assert plan.graph.support == plan.draft_model.graph.support == support
    assert plan.draft_model.graph.candidates == plan.graph.candidates == 1024


def test_a_draft_engine_on_tensorrt_has_profiles_for_one_and_two_tokens() -> None:
    plan = planned(gpu="rtx-4090")
    assert plan.draft_model is not None
    assert [(p.name, p.tokens) for p in plan.draft_model.profiles] == [
        ("prefill", (1, 512, 512)), ("catch-up", (2, 2, 2)), ("decode", (1, 1, 1)),
    ]  # fmt: skip


def test_the_draft_is_built_as_a_model_of_its_own() -> None:
    plan = planned()
    build = build_plan_of_draft(plan)
    assert build is not None
    assert plan.draft_model is not None
    assert (build.target, build.graph, build.backend.profiles) == (
        plan.draft_model.model, plan.draft_model.graph, plan.draft_model.profiles,
    )  # fmt: skip
    assert build.graph.role == "draft"
    ngram = plan_from_recipe(Recipe.model_validate({**BASE, "draft": "ngram"}), StatedSource())
    assert build_plan_of_draft(ngram) is None


def test_an_unrolled_draft_has_as_many_steps_as_a_request_of_open_gamma_starts_with() -> None:
    unrolled = {"kind": "model", "model": "d", "scheme": "bf16", "steps": "unrolled"}
    keys = {"gpu": "l4", "target": {"model": "m", "scheme": "bf16"}, "draft": unrolled, "gamma": "auto"}
    ids = {"vocab_size": SMALL.vocab_size, "emitted_vocab_size": SMALL.emitted_vocab_size}
    big = StatedSource(facts=replace(LLAMA_8B, **ids))
    plan = planned(big, **keys)
    assert plan.draft_model is not None
    assert plan.limits.default_gamma not in (1, 5)
    assert plan.draft_model.graph.steps == plan.limits.default_gamma
    small = planned(StatedSource(facts=SMALL), **keys)  # too small for drafts to gain
    assert small.draft_model is not None
    assert small.limits.default_gamma == 1
    assert small.draft_model.graph.variants == ("main",)
    assert any(note.startswith("draft steps: single calls") for note in small.notes)
