from __future__ import annotations

import pytest

from specc.plan.make import plan_from_recipe
from specc.recipe.load import recipe_from_text
from specc.speculation.modes import MODES, TypicalSpec
from tests.stated_source import StatedSource

RECIPE = "recipe: 1\nname: t\ntarget: {model: ./m}\ndraft: ngram\ngpu: cpu\n"


def planned(acceptance: str):
    return plan_from_recipe(recipe_from_text(RECIPE + acceptance, "r.yaml", ()), StatedSource())


@pytest.mark.parametrize("mode", [name for name in MODES if name != "typical"])
def test_other_modes_have_no_parameters(mode: str) -> None:
    plan = planned(f"acceptance: {mode}\n")
    assert (plan.graph.acceptance, plan.graph.typical) == (mode, None)


def test_the_parameters_are_those_of_the_recipe_or_the_defaults() -> None:
    lossy = "acceptance: typical\nlossy: true\n"
    assert planned(lossy).graph.typical == TypicalSpec(0.09, 0.3)
    assert planned(lossy + "typical: {epsilon: 0.2}\n").graph.typical == TypicalSpec(0.2, 0.3)


@pytest.mark.parametrize(
    ("acceptance", "words"),
    [
        ("acceptance: typical\nlossy: true\n", "acceptance typical is lossy"),
        ("acceptance: rejection\n", "depends on the drafts beside the seed"),
        ("acceptance: block\n", "depends on the drafts beside the seed"),
    ],
)
def test_the_plan_says_what_a_mode_does_to_the_text(acceptance: str, words: str) -> None:
    assert [note for note in planned(acceptance).notes if words in note]
    assert not [note for note in planned("acceptance: coupled\n").notes if words in note]
