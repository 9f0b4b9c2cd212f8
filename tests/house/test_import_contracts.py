"""Imports go down only: the contracts in pyproject.toml hold and name every package."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

from tests.house.tree import ROOT, package_name, python_files

RUNTIME_SIDE = {"runtime", "serve"}
SHARED = {"errors", "bundle", "speculation", "catalog", "progress", "version"}
ABOVE_BOTH = {
    "__main__",
    "calibrate",
    "certify",
    "diff",
    "probe",
    "report",
    "assembly",
    "stage_keys",
    "inputs",
    "stored",
    "pipeline",
    "cli",
}


def _parts() -> set[str]:
    """Return the packages and modules directly inside specc."""
    return {package_name(file) for file in python_files("specc")} - {"__init__"}


def _contracts() -> dict[str, dict[str, list[str]]]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return {contract["name"]: contract for contract in settings["tool"]["importlinter"]["contracts"]}


def test_import_contracts_are_kept() -> None:
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache", "--no-logo"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_forbidden_contracts_name_every_part() -> None:
    runtime = {f"specc.{name}" for name in _parts() & RUNTIME_SIDE}
    compiler = {f"specc.{name}" for name in _parts() - RUNTIME_SIDE - SHARED - ABOVE_BOTH}
    contracts = _contracts()
    ships = contracts["The runtime ships without the compiler"]
    builds = contracts["The compiler does not run engines; calibrate, certify and what stands above them do"]
    assert set(ships["source_modules"]) == runtime
    assert set(ships["forbidden_modules"]) == compiler
    assert set(builds["source_modules"]) == compiler
    assert set(builds["forbidden_modules"]) == runtime
