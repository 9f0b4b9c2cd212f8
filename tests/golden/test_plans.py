"""plan.json of every shipped recipe that can be planned; reviewed as a diff after `pytest --update-golden`."""

from __future__ import annotations

from pathlib import Path

import pytest

from specc.bundle.record import record_from_file
from specc.plan.make import plan_from_recipe, plan_text
from specc.plan.plan import Plan
from specc.recipe.load import recipe_from_file
from tests.stated_source import StatedSource

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = Path(__file__).parent / "plans"
PLANNED = (
    "smollm2-135m-cpu",
    "smollm2-135m-rtx",
    "smollm2-135m-w4a16-cpu",
    "smollm2-135m-w4a16-rtx",
    "smollm2-135m-w8a8-cpu",
)


@pytest.mark.parametrize("name", PLANNED)
def test_plan_is_as_reviewed(name: str, pytestconfig: pytest.Config) -> None:
    recipe = recipe_from_file(ROOT / "recipes" / f"{name}.yaml")
    text = plan_text(plan_from_recipe(recipe, StatedSource(uri=recipe.target.model)))
    golden = GOLDEN / f"{name}.json"
    if pytestconfig.getoption("update_golden"):
        golden.write_text(text)
    assert golden.read_text() == text, "the plan changed: run pytest --update-golden and review the diff"


@pytest.mark.parametrize("name", PLANNED)
def test_golden_plans_are_records(name: str) -> None:
    plan = record_from_file(Plan, GOLDEN / f"{name}.json")
    assert plan.name == name
    assert str(ROOT) not in plan_text(plan)
