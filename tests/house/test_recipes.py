"""Every shipped recipe loads, and plans or is refused by the name of what this version lacks."""

from __future__ import annotations

import pytest

from specc.errors import SpeccError
from specc.pipeline import plan_from_file
from specc.recipe.load import recipe_from_file
from tests.house.tree import ROOT

RECIPES = {file.stem: file for file in sorted((ROOT / "recipes").glob("*.yaml"))}
REFUSED = {"llama70b-h100": "tensorrt-llm"}


@pytest.mark.parametrize("name", RECIPES)
def test_recipe_loads_and_is_named_like_its_file(name: str) -> None:
    assert recipe_from_file(RECIPES[name]).name == name


@pytest.mark.parametrize("name", sorted(set(RECIPES) - set(REFUSED)))
def test_recipe_plans(name: str) -> None:
    plan = plan_from_file(RECIPES[name], (), offline=True)
    assert plan.name == name
    assert sum(item.bytes for item in plan.memory) > 0


@pytest.mark.parametrize("name", REFUSED)
def test_recipe_is_refused_by_name(name: str) -> None:
    with pytest.raises(SpeccError, match=REFUSED[name]):
        plan_from_file(RECIPES[name], (), offline=True)


def test_the_demo_recipes_are_there() -> None:
    assert {"smollm2-135m-cpu", "smollm2-135m-rtx"} <= set(RECIPES)
    makefile = (ROOT / "Makefile").read_text()
    assert "DEMO := smollm2-135m-cpu" in makefile
