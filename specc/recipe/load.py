"""From YAML text to a Recipe; whatever is wrong with the text is one coded error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from specc.errors import SpeccError
from specc.recipe.override import tree_with_override
from specc.recipe.problem import error_from_validation
from specc.recipe.schema import Recipe
from specc.recipe.tree import MAX_BYTES, Tree, tree_from_text


def recipe_from_file(path: Path, overrides: tuple[str, ...] = ()) -> Recipe:
    """Read a recipe.

    Args:
        path: the YAML file; errors show it as given.
        overrides: `key=value` of each `--set`, applied in order.

    Raises:
        SpeccError: SPC101 unreadable file; what `recipe_from_text` raises.
    """
    fix = "name a recipe file, or write one with `specc init`"
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise SpeccError("SPC101", str(path), "there is no such file", "a build starts from a recipe", fix) from None
    except (OSError, ValueError) as error:
        got = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise SpeccError("SPC101", str(path), got, "a build starts from a recipe", fix) from None
    if len(data) > MAX_BYTES:
        got = f"the file has more than {MAX_BYTES} bytes"
        raise SpeccError("SPC101", str(path), got, "a recipe holds choices only", fix)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        got = f"byte {data[error.start]:#04x} is not UTF-8 text"
        raise SpeccError("SPC101", f"{path}:{line}", got, "recipes are UTF-8", "save the file as UTF-8") from None
    return recipe_from_text(text, str(path), overrides)


def recipe_from_text(text: str, name: str, overrides: tuple[str, ...] = ()) -> Recipe:
    """Read a recipe from YAML text.

    Args:
        text: the recipe.
        name: what errors call the text, usually its file.
        overrides: `key=value` of each `--set`, applied in order.

    Raises:
        SpeccError: SPC102 to SPC109, at the first problem in the text.
    """
    tree = tree_from_text(text, name)
    if not isinstance(tree.value, dict):
        got = "the document is empty" if tree.value is None else "the top of the document is not a mapping"
        raise SpeccError("SPC102", tree.place(()), got, "a recipe is a mapping of keys", "start with `recipe: 1`")
    for override in overrides:
        tree = tree_with_override(tree, override)
    return _recipe_from_tree(tree)


def _recipe_from_tree(tree: Tree) -> Recipe:
    try:
        return Recipe.model_validate(tree.value, context=tree)
    except ValidationError as error:
        raise error_from_validation(error, tree) from None


def json_schema() -> dict[str, Any]:
    """Return the JSON schema of a recipe, with which editors complete and check the YAML."""
    schema = Recipe.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
