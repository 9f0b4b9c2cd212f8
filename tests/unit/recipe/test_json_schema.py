"""The exported JSON schema is current, and agrees with the loader on what a recipe may say."""

from __future__ import annotations

import json

import jsonschema
import pytest
import yaml

from specc.recipe.load import json_schema
from specc.recipe.schema import Recipe
from tests.house.tree import ROOT

PAGE = ROOT / "docs" / "recipe.schema.json"
RECIPES = sorted((ROOT / "recipes").glob("*.yaml"))


def test_exported_schema_is_current(pytestconfig: pytest.Config) -> None:
    text = json.dumps(json_schema(), indent=2) + "\n"
    if pytestconfig.getoption("update_golden"):
        PAGE.write_text(text)
    assert PAGE.read_text() == text, "stale: run pytest --update-golden and review the diff"


@pytest.mark.parametrize("file", RECIPES, ids=lambda file: file.stem)
def test_shipped_recipes_fit_the_schema(file) -> None:
    jsonschema.validate(yaml.safe_load(file.read_text()), json_schema())


BASE = {"recipe": 1, "name": "x", "target": {"model": "m"}, "draft": "none", "gpu": "cpu"}


@pytest.mark.parametrize(
    ("change", "fits"),
    [
        ({}, True),
        ({"gamma": "auto"}, True),
        ({"gamma": 3, "draft": {"kind": "ngram"}}, True),
        ({"gpu": "l4", "backend": {"name": "tensorrt-rtx", "compute_capabilities": [8.9, "12.0"]}}, True),
        ({"gama": 3}, False),
        ({"gamma": "many"}, False),
        ({"gpu": "tpu"}, False),
        ({"target": {"model": "m", "scheme": "q4"}}, False),
        ({"limits": {"max_batch": 0}}, False),
        ({"draft": {"kind": "ngram", "model": "m"}}, False),
        ({"recipe": 2}, False),
    ],
)
def test_schema_and_loader_agree(change, fits: bool) -> None:
    value = {**BASE, **change}
    assert jsonschema.Draft202012Validator(json_schema()).is_valid(value) is fits
    try:
        Recipe.model_validate(value)
    except ValueError:
        assert not fits
    else:
        assert fits


def test_every_field_is_described() -> None:
    schema = json_schema()
    groups = {"Recipe": schema, **schema["$defs"]}
    missing = [
        f"{name}.{key}"
        for name, group in groups.items()
        for key, field in group["properties"].items()
        if "description" not in field
    ]
    assert not missing
