"""The project's own files and syntax trees, as the house tests read them."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SPECC = ROOT / "specc"


def python_files(*folders: str) -> list[Path]:
    """Return every Python file under the named top-level folders, sorted."""
    return sorted(file for folder in folders for file in (ROOT / folder).rglob("*.py"))


def project_files() -> list[Path]:
    """Return every file that git tracks or would add, sorted."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return sorted(ROOT / name for name in set(listed) if (ROOT / name).is_file())


@cache
def tree_of(file: Path) -> ast.Module:
    """Return the syntax tree of a file."""
    return ast.parse(file.read_text(), filename=str(file))


def named(file: Path, line: int | None = None) -> str:
    """Return how a message names a place: path from the top folder, and the line."""
    path = file.relative_to(ROOT).as_posix()
    return path if line is None else f"{path}:{line}"


def functions(file: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield every function and method, nested ones included."""
    for node in ast.walk(tree_of(file)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def module_name(file: Path) -> str:
    """Return the dotted name of a module of specc."""
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def package_name(file: Path) -> str:
    """Return the part of specc a file belongs to: `graph` for specc/graph/blocks/norm.py, `cli` for specc/cli.py."""
    return file.relative_to(SPECC).with_suffix("").parts[0]


def imports(file: Path) -> Iterator[tuple[ast.stmt, str, bool]]:
    """Yield (statement, dotted module, at module level) of every import; imports are absolute by rule."""
    at_top = set(tree_of(file).body)
    for statement in tree_of(file).body:
        if isinstance(statement, ast.If | ast.Try):
            at_top |= {node for node in ast.walk(statement) if isinstance(node, ast.stmt)}
    for node in ast.walk(tree_of(file)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node, alias.name, node in at_top
        elif isinstance(node, ast.ImportFrom):
            yield node, node.module or "", node in at_top
