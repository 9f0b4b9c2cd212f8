"""The runtime generates in a virtual environment of its own: four libraries, and no part of the compiler."""

from __future__ import annotations

import importlib.metadata
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from specc.pipeline import BuildRequest, build
from specc.progress import silent
from specc.runtime import GenerationParams, Session
from tests.house.tree import SPECC
from tests.tiny_models import llama_folder

LIBRARIES = ("numpy", "onnxruntime", "tokenizers", "jinja2")
SHIPPED = ("__init__.py", "version.py", "progress.py", "errors", "bundle", "speculation", "catalog", "runtime")
PROMPTS = ["one two one two one", "three"]
RECIPE = """\
recipe: 1
name: alone
target: {model: model}
draft: {kind: ngram}
gamma: 3
gpu: cpu
limits: {max_batch: 2, max_input: 64, max_output: 32}
"""
PROGRAM = """
import json, sys
from specc.runtime import GenerationParams, Session
params = GenerationParams(max_new_tokens=12, temperature=0.8, seed=7, ignore_eos=True, mode="spec")
with Session.load(sys.argv[1], verify="full") as session:
    print(json.dumps([result.token_ids for result in session.generate(json.loads(sys.argv[2]), params)]))
"""


def _bundle(folder: Path) -> Path:
    llama_folder(folder / "model")
    recipe = folder / "alone.yaml"
    recipe.write_text(RECIPE)
    request = BuildRequest(
        recipe, (), folder / "build", stop_after="publish", locked=False, lock=None, offline=True, rehash=False
    )
    return build(request, silent, lambda _: None).path


def _python_with(folder: Path, *requirements: str) -> Path:
    """Return the interpreter of a new virtual environment that holds the requirements and what they need."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = folder / "bin" / "python"
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements]
    done = subprocess.run(pip, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return python


def _copy_runtime(package: Path) -> None:
    package.mkdir()
    for name in SHIPPED:
        copy = shutil.copytree if (SPECC / name).is_dir() else shutil.copy
        copy(SPECC / name, package / name)


@pytest.mark.slow
def test_runtime_generates_with_four_libraries(tmp_path: Path) -> None:
    python = _python_with(tmp_path / "venv", *(f"{name}=={importlib.metadata.version(name)}" for name in LIBRARIES))
    _copy_runtime(next((tmp_path / "venv" / "lib").glob("python*")) / "site-packages" / "specc")
    bundle = _bundle(tmp_path)
    command = [str(python), "-I", "-W", "error", "-c", PROGRAM, str(bundle), json.dumps(PROMPTS)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

    params = GenerationParams(max_new_tokens=12, temperature=0.8, seed=7, ignore_eos=True, mode="ar")
    with Session.load(bundle) as session:
        here = [list(result.token_ids) for result in session.generate(PROMPTS, params)]
    assert json.loads(done.stdout) == here
    assert [len(ids) for ids in here] == [12, 12]
