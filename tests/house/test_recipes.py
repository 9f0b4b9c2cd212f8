"""Every shipped recipe loads, and plans; what this version does not build of it is refused by name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from specc.checkpoint.config_facts import facts_from_config_file
from specc.checkpoint.quantization_config import MODELOPT_FILE
from specc.doctor.head_fit import planned_with_head
from specc.pipeline import plan_from_file
from specc.plan.make import plan_from_recipe
from specc.plan.outlook import NOTHING_GIVEN
from specc.plan.plan import Plan
from specc.plan.prediction import Prediction
from specc.plan.request import PlanRequest
from specc.recipe.load import recipe_from_file
from tests.house.tree import ROOT
from tests.stated_source import StatedSource

CONFIGS = ROOT / "tests" / "configs"
"""Public facts of models, in the form of their config.json."""
RECIPES = {file.stem: file for file in sorted((ROOT / "recipes").glob("*.yaml"))}
IN_PACKAGES = (
    "smollm2-135m-cpu",
    "smollm2-135m-rtx",
    "smollm2-135m-w4a16-cpu",
    "smollm2-135m-w4a16-rtx",
    "smollm2-135m-w8a8-cpu",
)
"""Recipes whose model an installed package brings."""
MODELS = {
    "llama70b-h100": ("llama-3.3-70b", "llama-3.2-1b"),
    "llama70b-h100-bf16": ("llama-3.3-70b", "llama-3.2-1b"),
    "llama70b-h200-eagle3": ("llama-3.3-70b", None),
    "llama70b-h200-tensorrt": ("llama-3.3-70b", None),
    "llama8b-l40s": ("llama-3.1-8b", "llama-3.2-1b"),
    "mistral-nemo-rtx4090": ("mistral-nemo-12b", None),
    "qwen2.5-7b-a10": ("qwen2.5-7b", "qwen2.5-0.5b"),
    "qwen3-8b-rtx5090": ("qwen3-8b", "qwen3-0.6b"),
}
"""By recipe: the configurations of target and draft."""
STORED = {"llama70b-h100": "fp8_e4m3"}
"""What a target's checkpoint stores where it is not bf16."""
REFUSED = {
    "llama70b-h200-eagle3": "eagle3",
}
"""What this version lacks for a recipe, as the refusal names it; all other recipes are built."""


@pytest.mark.parametrize("name", RECIPES)
def test_recipe_loads_and_is_named_like_its_file(name: str) -> None:
    assert recipe_from_file(RECIPES[name]).name == name


def test_every_recipe_is_planned_here() -> None:
    assert set(RECIPES) == {*IN_PACKAGES, *MODELS}


@pytest.mark.parametrize("name", IN_PACKAGES)
def test_recipe_of_a_package_plans(name: str) -> None:
    plan = plan_from_file(RECIPES[name], (), offline=True)
    assert plan.name == name
    assert sum(item.bytes for item in plan.memory) > 0


@pytest.mark.parametrize("name", MODELS)
def test_recipe_plans_from_its_models_configurations(name: str) -> None:
    """It fits its GPU and pays at batch 1, and what this version lacks is named."""
    target, draft = MODELS[name]
    draft_config = None if draft is None else CONFIGS / f"{draft}.json"
    request = PlanRequest(RECIPES[name], (), CONFIGS / f"{target}.json", draft_config, offline=True)
    planned = planned_with_head(request, NOTHING_GIVEN)
    assert not isinstance(planned, Plan)
    assert planned.available is not None
    assert 0.2 * planned.available < planned.memory_bytes <= planned.available
    assert isinstance(planned.prediction, Prediction)
    assert planned.prediction.best_gamma > 0
    if name in REFUSED:
        assert planned.refused is not None
        assert REFUSED[name] in planned.refused
    else:
        assert planned.refused is None


@pytest.mark.parametrize("name", sorted({*MODELS} - {*REFUSED}))
def test_recipe_has_a_whole_plan(name: str, tmp_path: Path) -> None:
    """With sources that state the same facts, and a tokenizer of as many ids as the smaller embedding has rows."""
    recipe = recipe_from_file(RECIPES[name])
    facts = [facts_from_config_file(CONFIGS / f"{model}.json") for model in MODELS[name] if model is not None]
    ids = min(each.vocab_size for each in facts)
    stored = (STORED.get(name, "bf16"), "bf16")
    sources = [
        StatedSource(facts=replace(each, emitted_vocab_size=ids, stored_dtype=dtype))
        for each, dtype in zip(facts, stored, strict=False)
    ]
    if name in STORED:
        (tmp_path / MODELOPT_FILE).write_text('{"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}}')
        sources[0] = replace(sources[0], files=(tmp_path / MODELOPT_FILE,))
    plan = plan_from_recipe(recipe, *sources)
    assert plan.backend.name == recipe.backend.name
    assert plan.fit is not None
    assert plan.fit.headroom_bytes > 0
    assert (plan.draft_model is None) is (len(facts) == 1)
    assert isinstance(plan.prediction, Prediction)


def test_the_demo_recipes_are_there() -> None:
    assert {"smollm2-135m-cpu", "smollm2-135m-rtx"} <= set(RECIPES)
    makefile = (ROOT / "Makefile").read_text()
    assert "DEMO := smollm2-135m-cpu" in makefile
