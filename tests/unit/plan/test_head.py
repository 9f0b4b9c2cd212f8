"""Who multiplies by the head: by the share of the logits, as measured, or as the recipe says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from specc.bundle.manifest import LimitsSpec
from specc.catalog.head_timings import HEAD_TIMINGS, HeadTiming, head_timing
from specc.catalog.weight_formats import WeightFormat
from specc.errors import SpeccError
from specc.plan.head import head_from_recipe, obstacle
from specc.plan.plan import WeightRow
from specc.recipe.schema import Recipe
from tests.tiny_engines import facts_from_sizes, tiny_graph_plan
from tests.tiny_models import TinyLlama

FACTS = facts_from_sizes(TinyLlama())
GREEDY = tiny_graph_plan(acceptance="greedy", compute_dtype="bf16", verification="plugin")
INT8 = WeightFormat("int8", "channel", None, zero_point=False, scale_dtype="f16")


def recipe(**backend: str) -> Recipe:
    return Recipe.model_validate(
        {"recipe": 1, "name": "x", "target": {"model": "m"}, "draft": "ngram", "gpu": "h100-sxm-80gb",
         "backend": {"name": "tensorrt", **backend}}
    )  # fmt: skip


def chosen(hidden_size: int, batch: int, gamma: int, timings: Any = (), **backend: str) -> tuple[str, tuple[str, ...]]:
    facts, limits = replace(FACTS, hidden_size=hidden_size), LimitsSpec(batch, 64, 64, 128, 32, 8, gamma)
    return head_from_recipe(recipe(**backend), facts, GREEDY, limits, ("9.0",), timings=timings)


@pytest.mark.parametrize(
    ("hidden_size", "batch", "gamma", "head", "share"),
    [(8192, 16, 4, "native", "1.0%"), (8192, 64, 4, "native", "3.9%"), (2048, 16, 4, "fused", "3.9%"),
     (2048, 8, 4, "native", "2.0%"), (4096, 64, 4, "fused", "7.8%"), (2048, 1, 4, "native", "0.2%")],
)  # fmt: skip
def test_without_a_timing_the_share_of_the_logits_decides(
    hidden_size: int, batch: int, gamma: int, head: str, share: str
) -> None:
    found, (note,) = chosen(hidden_size, batch, gamma)
    rows = batch * (gamma + 1)
    assert found == head
    assert note == (
        f"head: {head}; {rows} rows over a hidden size of {hidden_size} are {share}; no timing of this GPU is known."
    )


def timing(native: float, fused: float, rows: int = 80, sm: str = "9.0") -> HeadTiming:
    return HeadTiming(sm, "bf16", 2048, 128256, rows, native, fused, "a card, a date")


def test_a_timing_of_the_gpu_decides() -> None:
    found, (note,) = chosen(2048, 16, 4, (timing(100, 120),))
    assert found == "native"
    assert note == "head: native; 100 us apart and 120 us as one kernel were measured (a card, a date)."
    assert chosen(2048, 16, 4, (timing(100, 80),))[0] == "fused"
    assert chosen(2048, 16, 4, (timing(100, 120), timing(100, 80, rows=60)))[0] == "native", "the nearest"
    for elsewhere in (timing(100, 120, sm="8.9"), timing(100, 120, rows=200), timing(100, 120, rows=39)):
        assert "no timing" in chosen(2048, 16, 4, (elsewhere,))[1][0]


def test_the_recipe_decides_before_both() -> None:
    assert chosen(2048, 16, 4, head="native") == ("native", ())
    assert chosen(8192, 1, 1, (timing(1, 2),), head="fused") == ("fused", ())


CANNOT = {
    "native operators verify": {"verification": "native"},
    "acceptance coupled reads the logits": {"acceptance": "coupled"},
    "features token_logprobs need the logits": {"features": ("token_logprobs",)},
    "not f32": {"compute_dtype": "f32"},
    "the head is quantized": {"weights": (WeightRow("*", "w8a16", INT8, "rtn"),)},
}


@pytest.mark.parametrize("reason", CANNOT)
def test_what_one_kernel_cannot_serve_is_never_asked_of_it(reason: str) -> None:
    graph = replace(GREEDY, **CANNOT[reason])
    limits = LimitsSpec(64, 64, 64, 128, 32, 8, 4)
    assert reason in str(obstacle(FACTS, graph))
    assert head_from_recipe(recipe(), FACTS, graph, limits, ("9.0",), timings=()) == ("native", ())
    with pytest.raises(SpeccError) as caught:
        head_from_recipe(recipe(head="fused"), FACTS, graph, limits, ("9.0",), timings=())
    assert caught.value.code == "SPC301"
    assert caught.value.place == "backend.head"
    assert reason in caught.value.why


def test_sizes_and_scales_that_it_cannot_serve() -> None:
    assert "no multiple of 16" in str(obstacle(replace(FACTS, hidden_size=72), GREEDY))
    for scales in ({"logits_scaling": 8.0}, {"final_logit_softcapping": 30.0}):
        assert obstacle(replace(FACTS, scales=replace(FACTS.scales, **scales)), GREEDY) == "logits are scaled or capped"
    assert obstacle(FACTS, GREEDY) is None


def test_no_timing_is_made_up() -> None:
    assert HEAD_TIMINGS == ()
    assert head_timing((), "9.0", "bf16", hidden_size=2048, rows=80) is None
