"""Where one operator rotates, writes caches and attends."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from specc.checkpoint.facts import LayerFacts
from specc.errors import SpeccError
from specc.plan.make import plan_from_recipe
from specc.plan.outlook import Given
from specc.plan.plan import Plan
from specc.plan.prediction import Prediction
from specc.plan.preview import Facts, preview_from_recipe
from specc.plan.work_cost import WorkCost, WorkTerms
from specc.recipe.schema import Recipe
from tests.cpu_machine import machine_from_rates
from tests.stated_source import SMOLLM2_FACTS, StatedSource

ONE_SHORT_TEXT = {"max_batch": 1, "max_input": 512, "max_output": 512}


MEASURED = Given(machine=replace(machine_from_rates(20e9, 100e9), int8_attention=WorkCost((WorkTerms(1, 0, 0, 0, 0),))))
"""A CPU that attends over int8 in no time."""


def recipe(**keys: Any) -> Recipe:
    target = {"model": "m", "scheme": "w4a16"}
    base = {"recipe": 1, "name": "x", "target": target, "draft": "ngram", "gpu": "cpu"}
    return Recipe.model_validate({**base, "limits": ONE_SHORT_TEXT, **keys})


def planned(source: StatedSource | None = None, **keys: Any) -> Plan:
    return plan_from_recipe(recipe(**keys), source or StatedSource())


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


INT8_TARGET = {"model": "m", "scheme": "w4a16", "kv_cache": "int8"}


@pytest.mark.parametrize("limits", [ONE_SHORT_TEXT, {"max_batch": 8, "max_input": 4096, "max_output": 512}])
def test_int8_caches_take_the_one_operator_whatever_the_limits(limits: dict[str, int]) -> None:
    plan, floats = planned(target=INT8_TARGET, limits=limits), planned(limits=limits)
    assert (plan.graph.attention, plan.graph.int8_caches, floats.graph.int8_caches) == ("fused", True, False)
    assert plan.graph.calibrates
    assert any(note.startswith("caches: keys and values are rounded to int8") for note in plan.notes)
    assert any(note.startswith("activations are f32") for note in plan.notes)
    caches, of_floats = (next(item for item in of.memory if item.name == "kv cache") for of in (plan, floats))
    assert caches.detail.startswith(of_floats.detail.split(" f32")[0].split(" x ")[0])
    rows = plan.graph.capacity_buckets[-1] / floats.graph.capacity_buckets[-1]
    assert caches.bytes == pytest.approx(of_floats.bytes * rows / 4)


@pytest.mark.parametrize(
    ("source", "keys", "why"),
    [
        (None, {"target": INT8_TARGET | {"scheme": "f32"}}, "graphs of floats stay those of ONNX's operators"),
        (None, {"draft": {"kind": "self", "layers": 4}}, "caches of layers behind an early end"),
        (with_facts(norms=replace(SMOLLM2_FACTS.norms, query_key="head")), {}, "queries and keys have norms"),
        (with_facts(rope=replace(SMOLLM2_FACTS.rope, rotary_dim=32)), {}, "part of each head is rotated"),
        (
            with_facts(head_dim=24, num_attention_heads=4, num_key_value_heads=2),
            {},
            "heads of 24 are no multiple of 16",
        ),
        (with_facts(layers=(LayerFacts(64, "main", False),) * 30), {}, "layers have windows"),
    ],
)
def test_where_the_operator_does_not_serve_int8_caches_are_refused_by_reason(
    source: StatedSource | None, keys: dict[str, Any], why: str
) -> None:
    with pytest.raises(SpeccError) as caught:
        planned(source, **{"target": INT8_TARGET, **keys})
    error = caught.value
    assert (error.code, error.got) == ("SPC302", "caches of int8 for this target")
    assert why in error.why
    assert error.fix.startswith("remove kv_cache: caches are then f32")
    assert error.fix.endswith(", or quantize the weights") == ("floats" in why)


@pytest.mark.parametrize(
    ("keys", "got"),
    [
        ({"draft": {"kind": "model", "model": "d", "kv_cache": "int8"}}, "caches of int8 of a draft"),
        ({"target": INT8_TARGET | {"kv_cache": "fp8"}}, "caches of fp8 on onnxruntime"),
        ({"target": INT8_TARGET, "gpu": "rtx-3090"}, "caches of int8 on tensorrt-rtx"),
    ],
)
def test_no_draft_and_no_other_back_end_keeps_them(keys: dict[str, Any], got: str) -> None:
    with pytest.raises(SpeccError) as caught:
        planned(**keys)
    assert caught.value.code in ("SPC301", "SPC302")
    assert got in caught.value.got


@pytest.mark.parametrize("limits", [ONE_SHORT_TEXT, {**ONE_SHORT_TEXT, "max_batch": 4}], ids=["one", "four"])
@pytest.mark.parametrize("cache", [None, "int8"])
def test_a_comparison_prices_attention_as_the_plan_does(cache: str | None, limits: dict[str, int]) -> None:
    asked = recipe(limits=limits, target={"model": "m", "scheme": "w4a16", "kv_cache": cache})
    plan = plan_from_recipe(asked, StatedSource(), None, MEASURED)
    shown = preview_from_recipe(asked, Facts(SMOLLM2_FACTS, None), MEASURED, None)
    assert isinstance(plan.prediction, Prediction)
    assert isinstance(shown.prediction, Prediction)
    assert shown.prediction.ar_step_ms == pytest.approx(plan.prediction.ar_step_ms)
    scratch = [[item for item in items if item.name == "activations"] for items in (plan.memory, shown.memory)]
    assert scratch[0] == scratch[1]


def test_over_int8_a_price_does_not_depend_on_the_requests_that_a_bundle_takes() -> None:
    rates = []
    for rows in (1, 16):
        limits = {**ONE_SHORT_TEXT, "max_batch": rows}
        asked = recipe(limits=limits, target={"model": "m", "scheme": "w4a16", "kv_cache": "int8"})
        outlook = plan_from_recipe(asked, StatedSource(), None, MEASURED).prediction
        assert isinstance(outlook, Prediction)
        rates.append({line.batch: line.ar_user_tokens for line in outlook.batches})
    assert rates[0] == rates[1]
    assert len(rates[0]) > 3
