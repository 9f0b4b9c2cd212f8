"""Where one operator rotates, writes caches and attends."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from specc.checkpoint.facts import LayerFacts
from specc.plan.make import plan_from_recipe
from specc.plan.plan import Plan
from specc.recipe.schema import Recipe
from tests.stated_source import SMOLLM2_FACTS, StatedSource

ONE_SHORT_TEXT = {"max_batch": 1, "max_input": 512, "max_output": 512}


def planned(source: StatedSource | None = None, **keys: Any) -> Plan:
    target = {"model": "m", "scheme": "w4a16"}
    base = {"recipe": 1, "name": "x", "target": target, "draft": "ngram", "gpu": "cpu"}
    recipe = Recipe.model_validate({**base, "limits": ONE_SHORT_TEXT, **keys})
    return plan_from_recipe(recipe, source or StatedSource())


def with_facts(**stated: Any) -> StatedSource:
    return StatedSource(facts=replace(SMOLLM2_FACTS, **stated))


def test_one_request_at_a_time_gets_the_one_operator_and_room_for_its_spare_row() -> None:
    plan = planned()
    graph = plan.graph
    assert graph.attention == "fused"
    assert any(note.startswith("attention: one operator") for note in plan.notes)
    assert graph.capacity_buckets == (128, 256, 512, 1024, 1152), "few: they cost nothing while they are not read"
    limits = planned().limits
    assert graph.capacity_buckets[-1] >= limits.max_length - 1 + limits.prefill_chunk + 1


@pytest.mark.parametrize(
    ("source", "keys"),
    [
        (None, {"limits": ONE_SHORT_TEXT | {"max_batch": 2}}),
        (None, {"limits": ONE_SHORT_TEXT | {"max_output": 513}}),
        (None, {"gpu": "rtx-3090"}),
        (None, {"target": {"model": "m", "scheme": "f32"}}),
        (None, {"draft": {"kind": "self", "layers": 4}}),
        (with_facts(norms=replace(SMOLLM2_FACTS.norms, query_key="head")), {}),
        (with_facts(rope=replace(SMOLLM2_FACTS.rope, rotary_dim=32)), {}),
        (with_facts(scales=replace(SMOLLM2_FACTS.scales, attn_logit_softcapping=30.0)), {}),
        (with_facts(layers=(LayerFacts(64, "main", False),) * SMOLLM2_FACTS.num_hidden_layers), {}),
        (with_facts(layers=(LayerFacts(0, "none", False),) * SMOLLM2_FACTS.num_hidden_layers), {}),
    ],
    ids=[
        "two requests",
        "longer texts",
        "a GPU",
        "floats",
        "early exit",
        "norms of heads",
        "half rotated",
        "soft cap",
        "window",
        "no rotation",
    ],
)
def test_others_keep_the_operators_apart(source: StatedSource | None, keys: dict[str, Any]) -> None:
    plan = planned(source, **keys)
    assert plan.graph.attention == "native"
    assert not any(note.startswith("attention:") for note in plan.notes)


def test_texts_may_be_long_where_no_query_heads_share_a_cache_head() -> None:
    source = with_facts(num_key_value_heads=SMOLLM2_FACTS.num_attention_heads)
    assert planned(source, limits={"max_batch": 1, "max_input": 1024, "max_output": 1024}).graph.attention == "fused"


def test_a_draft_model_keeps_them_too() -> None:
    small = replace(SMOLLM2_FACTS, num_hidden_layers=4)
    draft = {"kind": "model", "model": "d"}
    base = {"recipe": 1, "name": "x", "target": {"model": "m", "scheme": "w4a16"}, "draft": draft, "gpu": "cpu"}
    recipe = Recipe.model_validate({**base, "limits": ONE_SHORT_TEXT})
    plan = plan_from_recipe(recipe, StatedSource(), StatedSource(uri="d", facts=small))
    assert plan.draft_model is not None
    assert (plan.graph.attention, plan.draft_model.graph.attention) == ("fused", "native")
