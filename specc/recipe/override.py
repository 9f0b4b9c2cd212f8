"""`--set key=value`: one value of a recipe replaced on the command line."""

from __future__ import annotations

import re
from typing import Any, Final

from specc.errors import SpeccError
from specc.recipe.shorthand import mapping_from_shorthand
from specc.recipe.tree import Mark, Path, Tree, field_from_path, printable, tree_from_text

STEP: Final = re.compile(r"""("[^"]*"|'[^']*'|[^.]*)\.""")
"""A key on the way, and the dot behind it."""
STATED: Final = re.compile(r"""((?:"[^"]*"|'[^']*'|[^"'=])*)(=)(.*)""", re.DOTALL)
"""Keys, `=`, value."""
SURROGATE: Final = re.compile("[\\ud800-\\udfff]")
"""What a byte of the command line that is no UTF-8 becomes."""


def tree_with_override(tree: Tree, override: str) -> Tree:
    """Return the tree with one value replaced or added.

    Args:
        tree: a recipe; its top is a mapping.
        override: `key=value`; nested keys are joined by dots, one that has dots or `=` itself stands in quotes, and the
            value is YAML. An empty value is null.

    Raises:
        SpeccError: SPC109 no such form, SPC102 or SPC103 the value is not YAML.
    """
    stated = STATED.fullmatch(override)
    key, separator, text = stated.groups() if stated is not None else override.partition("=")
    path = tuple(_unquoted(step) for step in STEP.findall(key.strip() + "."))
    if not separator or not all(path) or SURROGATE.search(key):
        raise SpeccError(
            "SPC109",
            f"--set {printable(override)}",
            "there is no `key=value` in it" if not separator else f"`{printable(key)}` is not a key",
            "an override names one key, nested keys joined by dots, and its value",
            "write for example `--set target.scheme=f32`",
        )
    place = f"--set {printable(key.strip())}"
    new = tree_from_text(text, place)
    order = max(mark.order for mark in tree.marks.values()) + 1
    marks: dict[Path, Mark] = {old: mark for old, mark in tree.marks.items() if old[: len(path)] != path}
    # Mappings on the way that were not there come from the override too.
    marks |= {path[:n]: Mark(place, None, order) for n in range(1, len(path)) if path[:n] not in marks}
    marks |= {(*path, *below): Mark(place, mark.text, order + mark.order) for below, mark in new.marks.items()}
    return Tree(_replaced(tree.value, path, 0, new.value), marks)


def _unquoted(step: str) -> str:
    quoted = len(step) > 1 and step[0] == step[-1] and step[0] in "\"'"
    return step[1:-1] if quoted else step


def _replaced(value: Any, path: tuple[str, ...], depth: int, new: Any) -> Any:  # noqa: ANN401 - YAML values
    if depth == len(path):
        return new
    if depth > 0:
        value = mapping_from_shorthand(path[depth - 1], value)
    if value is None:
        value = {}
    if not isinstance(value, dict):
        raise SpeccError(
            "SPC109",
            f"--set {field_from_path(path)}",
            f"`{field_from_path(path[:depth])}` is not a mapping",
            "only a mapping has keys to set",
            f"set `{field_from_path(path[:depth])}` as a whole",
        )
    return {**value, path[depth]: _replaced(value.get(path[depth]), path, depth + 1, new)}
