"""Bundles of a tiny pair for TensorRT-LLM, without weights, and the checks that every kind of deployed file has."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from specc.pipeline import BuildRequest, build
from specc.progress import silent
from tests.tiny_models import TinyLlama, llama_folder

RECIPE = """\
recipe: 1
name: Pair_of.2
target: {model: target}
draft: {kind: model, model: draft}
gamma: 4
gpu: {name: h100-sxm-80gb, count: 4}
backend: {name: tensorrt-llm, flow: serve}
limits: {max_batch: 8, max_input: 128, max_output: 64}
"""


def recipe_in(folder: Path) -> Path:
    """Write both models and the recipe; return the recipe."""
    llama_folder(folder / "target", TinyLlama(stored="bf16", num_hidden_layers=1))
    llama_folder(folder / "draft", TinyLlama(stored="bf16", seed=1, num_hidden_layers=1))
    (folder / "r.yaml").write_text(RECIPE)
    return folder / "r.yaml"


def layout_of(recipe: Path, out: Path, *overrides: str, stop_after: Any = "layout") -> Path:
    request = BuildRequest(recipe, overrides, out, stop_after, False, None, True, False)
    return build(request, silent, on_wait=lambda _: None).path


def bundle(recipe: Path, out: Path, flow: str, version: str = "1.2.1", *overrides: str) -> Path:
    """Return the bundle of a flow of one version."""
    backend = f'backend={{name: tensorrt-llm, flow: {flow}, version: "{version}"}}'
    return layout_of(recipe, out, backend, *overrides)


def loaded(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def run(script: Path, *arguments: str, cwd: Path, **variables: str) -> list[str]:
    """Run a script over the stubs in `bin`, and return the lines that it printed."""
    path = f"{cwd / 'bin'}{os.pathsep}{os.environ['PATH']}"
    environment = {"PATH": path} | variables
    command = ["bash", str(script), *arguments]
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def shell_problems(script: Path) -> str:
    """Return what bash and shellcheck say of a script; empty where they are content."""
    commands = [["bash", "-n", str(script)]]
    checker = shellcheck()
    if checker is not None:
        commands.append([checker, "--severity=style", str(script)])
    done = [subprocess.run(command, capture_output=True, text=True, check=False) for command in commands]
    return "".join(run.stdout + run.stderr for run in done)


def shellcheck() -> str | None:
    """Return where shellcheck is: beside this Python, as the development tools bring it, or on the path."""
    folders = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return shutil.which("shellcheck", path=folders)


def stub(folder: Path, name: str) -> None:
    """Put a program into a folder that prints its arguments, one a line."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text('#!/usr/bin/env bash\nprintf "%s\\n" "' + name + '" "$@"\n')
    (folder / name).chmod(0o755)
