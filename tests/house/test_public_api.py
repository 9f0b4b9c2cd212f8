"""What is public is listed and documented."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.tree import module_name, named, python_files, tree_of

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
FILES = python_files("specc")
LISTING = [file for file in FILES if any("__all__" in ast.dump(node) for node in tree_of(file).body)]


def _public_definitions(file: Path) -> Iterator[tuple[str, Definition]]:
    """Yield (name, node) of public functions, classes and their public methods."""
    for node in tree_of(file).body:
        if isinstance(node, Definition) and not node.name.startswith("_"):
            yield node.name, node
            if isinstance(node, ast.ClassDef):
                for member in node.body:
                    if isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef) and not member.name.startswith("_"):
                        yield f"{node.name}.{member.name}", member


def test_everything_public_has_a_docstring() -> None:
    missing = [named(file, 1) for file in FILES if not ast.get_docstring(tree_of(file))]
    missing += [
        f"{named(file, node.lineno)} {name}"
        for file in FILES
        for name, node in _public_definitions(file)
        if not ast.get_docstring(node)
    ]
    assert not missing, "\n".join(missing)


@pytest.mark.parametrize("file", LISTING, ids=module_name)
def test_all_is_importable(file) -> None:
    module = importlib.import_module(module_name(file))
    names = list(module.__all__)
    assert len(names) == len(set(names))
    assert [name for name in names if not hasattr(module, name)] == []


@pytest.mark.parametrize("file", LISTING, ids=module_name)
def test_all_lists_what_is_defined_there(file) -> None:
    defined = {name for name, _ in _public_definitions(file) if "." not in name}
    assert sorted(defined - set(importlib.import_module(module_name(file)).__all__)) == []
