"""What a back end cannot do of a model is refused by name; the length of texts decides between longrope's factors."""

from __future__ import annotations

import dataclasses

import pytest

from specc.checkpoint.facts import ExpertFacts, LayerFacts, ModelFacts, ScaleFacts
from specc.checkpoint.rope import longrope
from specc.errors import SpeccError
from specc.plan.make import plan_from_recipe
from specc.plan.plan import Plan
from specc.recipe.schema import Recipe
from tests.stated_source import SMOLLM2_FACTS, StatedSource

MIXED = dataclasses.replace(
    SMOLLM2_FACTS,
    family="qwen3moe",
    layers=(LayerFacts(0, "main", experts=True),) * 30,
    experts=ExpertFacts(8, 2, 768, norm_topk_prob=True),
)
CAPPED = dataclasses.replace(SMOLLM2_FACTS, family="gemma2", scales=ScaleFacts(attn_logit_softcapping=50.0))
LONG = dataclasses.replace(SMOLLM2_FACTS, rope=longrope(1e4, 2.0, 4096, None, short=(1.0,) * 32, long=(4.0,) * 32))


def planned(facts: ModelFacts, gpu: str = "cpu", max_output: int = 1024) -> Plan:
    base = {"recipe": 1, "name": "x", "target": {"model": "m"}, "draft": "ngram", "gpu": gpu}
    limits = {"max_batch": 1, "max_input": 1024, "max_output": max_output}
    return plan_from_recipe(Recipe.model_validate(base | {"limits": limits}), StatedSource(facts=facts))


@pytest.mark.parametrize(
    ("facts", "feature", "why"),
    [(MIXED, "qwen3moe has a mixture of experts", "NonZero"), (CAPPED, "gemma2 has soft-capped", "softcap")],
)
def test_tensorrt_rtx_refuses_what_it_cannot_build(facts: ModelFacts, feature: str, why: str) -> None:
    planned(facts)
    with pytest.raises(SpeccError) as caught:
        planned(facts, "rtx-4090")
    assert caught.value.code == "SPC301"
    assert caught.value.place.endswith("target.model")
    assert feature in caught.value.got
    assert "tensorrt-rtx" in caught.value.got
    assert why in caught.value.why
    assert "onnxruntime" in caught.value.fix


@pytest.mark.parametrize("size", [8, 12, 20, 264])
def test_tensorrt_rtx_refuses_heads_that_it_has_no_fused_attention_for(size: int) -> None:
    with pytest.raises(SpeccError) as caught:
        planned(dataclasses.replace(SMOLLM2_FACTS, head_dim=size), "rtx-4090")
    assert caught.value.code == "SPC301"
    assert caught.value.got == f"attention heads of size {size}, on tensorrt-rtx"
    assert "multiples of 8 from 16 to 256" in caught.value.why
    planned(dataclasses.replace(SMOLLM2_FACTS, head_dim=16), "rtx-4090")
    planned(dataclasses.replace(SMOLLM2_FACTS, head_dim=256), "rtx-4090")


def test_the_longest_text_decides_between_the_factors_of_longrope() -> None:
    short, long = planned(LONG, max_output=3072), planned(LONG, max_output=3073)
    assert short.target.facts == LONG
    assert long.target.facts.rope.longrope is not None
    assert long.target.facts.rope.longrope.in_use == "long"
    assert any("short factors" in note for note in short.notes)
    assert any("long factors" in note for note in long.notes)


def test_windows_do_not_shrink_caches_and_the_plan_says_so() -> None:
    near = dataclasses.replace(SMOLLM2_FACTS, layers=(LayerFacts(128, "main", experts=False),) * 30)
    plain, windowed = planned(SMOLLM2_FACTS), planned(near)
    caches = [[item for item in plan.memory if item.name == "kv cache"] for plan in (plain, windowed)]
    assert caches[0] == caches[1]
    assert any("window of 128 tokens" in note for note in windowed.notes)


def test_experts_are_counted() -> None:
    weights = {item.name: item.bytes for item in planned(MIXED).memory}
    assert weights["weights: experts"] == 30 * 8 * 3 * 768 * 576 * 4
    norms = 61 * 576
    assert weights["weights: small"] == (norms + 30 * 8 * 576) * 4  # with the routers
