"""Linter, formatter and type checker are tests, so that `pytest` is the one command."""

from __future__ import annotations

import subprocess
import sys
import tomllib

import pytest

from tests.house.tree import ROOT


@pytest.mark.slow
@pytest.mark.parametrize("tool", [("ruff", "check"), ("ruff", "format", "--check", "--diff"), ("mypy",)], ids=" ".join)
def test_static_checks_are_clean(tool: tuple[str, ...]) -> None:
    done = subprocess.run([sys.executable, "-m", *tool], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]


def test_types_of_every_benchmark_are_checked() -> None:
    checked = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]["modules"]
    written = {file.stem for file in (ROOT / "benchmarks").rglob("*.py")}
    assert written
    assert written <= {name.rpartition(".")[2] for name in checked}
