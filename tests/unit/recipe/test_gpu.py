"""A GPU written out in a recipe counts as a row of the catalog does, everywhere."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from specc.catalog.gpus import GPUS, gigabytes_text
from specc.errors import SpeccError
from specc.plan.choices import choices_from_recipe
from specc.plan.compare import variants_from_text
from specc.plan.make import plan_from_recipe
from specc.plan.outlook import Given
from specc.plan.preview import Facts, preview_from_recipe
from specc.recipe.load import recipe_from_text
from specc.recipe.schema import Recipe
from tests.checked_pair import TRTLLM, checked, found
from tests.published_speedups import LLAMA_8B
from tests.stated_source import StatedSource

TEXT = """\
recipe: 1
name: own-gpu
target: {model: ./m, scheme: f16}
draft: ngram
gpu:
  name: my-card
  memory_gb: 24
  memory_kind: gddr
  bandwidth_gbps: 1008
  compute_capability: 8.9
  dense_tflops: {f32: 82.6, bf16: 165.2, int8: 660.6, fp8: 330.3}
"""


def own(*overrides: str) -> Recipe:
    return recipe_from_text(TEXT, "r.yaml", overrides)


def test_the_facts_of_a_known_card_make_its_row() -> None:
    known = GPUS["rtx-4090"]
    row = own("gpu.link_gbps=64").gpu.row
    assert replace(row, name=known.name, title=known.title, source=known.source) == known
    assert (row.source, own().gpu.own) == ("the recipe", True)


def test_a_card_of_the_recipe_is_planned_like_the_catalogs() -> None:
    source = StatedSource(facts=replace(LLAMA_8B, max_position_embeddings=4096))
    mine = plan_from_recipe(own(), source)
    theirs = plan_from_recipe(own("gpu=rtx-4090"), source)
    assert (mine.gpu, mine.prediction, mine.memory) == ("my-card", theirs.prediction, theirs.memory)
    assert mine.backend == theirs.backend
    assert mine.recipe["gpu"]["bandwidth_gbps"] == 1008
    assert choices_from_recipe(own()).backend.name == "tensorrt-rtx"


def test_a_card_of_the_recipe_can_be_too_small_and_be_compared() -> None:
    shown = preview_from_recipe(own("gpu.memory_gb=8"), Facts(LLAMA_8B, None), Given(), None)
    assert shown.available == 8 * 10**9 < shown.memory_bytes
    variants = variants_from_text("gpus=my-card,l4", own())
    assert [variant.overrides for variant in variants] == [(), ('gpu={name: "l4", count: 1}',)]
    assert own(*variants[1].overrides).gpu.row is GPUS["l4"]


def test_a_finding_names_the_recipe_as_the_source_of_its_facts(tmp_path: Path) -> None:
    facts = "{f32: 1, bf16: 1}, memory_gb: 0.001, memory_kind: hbm, bandwidth_gbps: 1, compute_capability: 9.0"
    text = TRTLLM.replace("name: h100-sxm-80gb", f"name: tiny, dense_tflops: {facts}")
    finding = found(checked(tmp_path, text), "SPC305")
    assert any("r.yaml:" in where and where.endswith(" gpu") for _, where in finding.evidence)


@pytest.mark.parametrize("field", ["memory_gb", "bandwidth_gbps", "dense_tflops.bf16", "dense_tflops.f32", "link_gbps"])
def test_a_fact_that_rounds_to_nothing_is_refused(field: str) -> None:
    with pytest.raises(SpeccError, match=r"expected a number of at least 0\.001") as caught:
        own(f"gpu.{field}=1e-13")
    assert (caught.value.code, caught.value.place) == ("SPC106", f"--set gpu.{field}")


@pytest.mark.parametrize(("count", "text"), [(24 * 10**9, "24 GB"), (8 * 10**9, "8 GB"), (5 * 10**8, "0.5 GB")])
def test_the_memory_of_a_card_is_never_shown_as_nothing(count: int, text: str) -> None:
    assert gigabytes_text(count) == text
