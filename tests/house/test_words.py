"""Words that do not belong in the project: promises, catch-all names, literal getattr, machines and hosts."""

from __future__ import annotations

import ast
import re

from tests.house.tree import ROOT, named, project_files, python_files, tree_of

CATCH_ALL = {"utils", "helpers", "util", "helper", "misc", "common"}
PROMISE = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b|NotImplementedError")
MACHINE_PATH = re.compile(r"(?<![\w.~-])/(work|tmp|home|root|Users|opt)/[\w.]")
REGISTRY_HOST = re.compile(r"\b(pypi\.(org|nvidia\.com)|pythonhosted\.org|npmjs\.(org|com)|download\.pytorch\.org)\b")
THIS_FILE = "tests/house/test_words.py"


def _lines_with(pattern: re.Pattern[str]) -> list[str]:
    found = []
    for file in project_files():
        if named(file) in {THIS_FILE, "LICENSE"}:
            continue
        for number, line in enumerate(file.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            if pattern.search(line):
                found.append(f"{named(file, number)} {line.strip()[:120]}")
    return found


def test_nothing_is_promised_for_later() -> None:
    assert not _lines_with(PROMISE)


def test_no_machine_path_is_named() -> None:
    assert not _lines_with(MACHINE_PATH)


def test_no_registry_host_is_named() -> None:
    assert not _lines_with(REGISTRY_HOST)


def test_no_file_has_a_catch_all_name() -> None:
    assert not [
        named(file) for file in python_files("specc", "tests", "benchmarks", "scripts") if file.stem in CATCH_ALL
    ]


def test_no_package_is_named_build() -> None:
    assert not (ROOT / "build" / "__init__.py").exists()
    assert not (ROOT / "specc" / "build").exists()


def test_attributes_are_not_looked_up_by_literal_name() -> None:
    found = [
        named(file, node.lineno)
        for file in python_files("specc")
        for node in ast.walk(tree_of(file))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in {"getattr", "hasattr", "setattr"}
        and any(isinstance(argument, ast.Constant) for argument in node.args[1:2])
    ]
    assert not found


def test_every_module_defers_its_annotations() -> None:
    missing = []
    for file in python_files("specc"):
        body = tree_of(file).body
        code = [node for node in body if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))]
        future = [node for node in code if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
        defines = any(isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AnnAssign) for node in code)
        if defines and not future:
            missing.append(named(file))
    assert not missing
