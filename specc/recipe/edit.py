"""Change single values of a recipe's text, and nothing else of it: comments, order and spacing stay."""

from __future__ import annotations

import re
from typing import Any, Final

import yaml

from specc.errors import SpeccError
from specc.recipe.tree import tree_from_text

SPACE: Final = re.compile(r"[ \t]*")


def text_with_value(text: str, path: tuple[str, ...], value: str) -> str | None:
    """Return the recipe with one value replaced, or added to a mapping that is there.

    Args:
        text: the recipe, valid YAML.
        path: keys from the top; all but the last must lead to a mapping.
        value: YAML of the value, on one line.

    Returns:
        The new text; None where no edit of one place has this effect: a shorthand stands for the mapping, the value
        spans lines, or an anchor would share it.
    """
    node = yaml.compose(text, yaml.SafeLoader)
    for step, key in enumerate(path):
        if not isinstance(node, yaml.MappingNode):
            return None
        found = next((item for name, item in node.value if name.value == key), None)
        if found is None:
            return None if step < len(path) - 1 else _checked(text, _added(text, node, key, value), path, value)
        node = found
    if node is None or node.start_mark.line != node.end_mark.line:
        return None
    edited = text[: node.start_mark.index] + value + text[node.end_mark.index :]
    return _checked(text, edited, path, value)


def _added(text: str, node: yaml.MappingNode, key: str, value: str) -> str:
    """Add a key behind the last one of a flow mapping, before the first one of a block mapping."""
    if node.flow_style:
        if not node.value:
            return f"{text[: node.end_mark.index - 1]}{key}: {value}{text[node.end_mark.index - 1 :]}"
        end = node.value[-1][1].end_mark.index
        return f"{text[:end]}, {key}: {value}{text[end:]}"
    first = node.value[0][0].start_mark
    return f"{text[: first.index]}{key}: {value}\n{' ' * first.column}{text[first.index :]}"


def _checked(text: str, edited: str, path: tuple[str, ...], value: str) -> str | None:
    """Return the edited text if it differs from the old one in that value alone."""
    wanted = _with(tree_from_text(text, "recipe").value, path, tree_from_text(value, "value").value)
    try:
        return edited if tree_from_text(edited, "recipe").value == wanted else None
    except SpeccError:
        return None


def _with(tree: Any, path: tuple[str, ...], value: Any) -> Any:  # noqa: ANN401 - YAML values are of any type
    return {**tree, path[0]: _with(tree.get(path[0], {}), path[1:], value)} if path else value
