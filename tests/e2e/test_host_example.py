"""`examples/host.py`, run as a program of its own: the ABI page is enough to get the runtime's ids from a bundle."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from specc.cli.main import status_from_arguments
from specc.runtime import GenerationParams, Session
from tests.tiny_models import TinyLlama, llama_folder

HOST = Path(__file__).parents[2] / "examples" / "host.py"
RECIPE = """\
recipe: 1
name: {name}
target: {target}
draft: {draft}
gamma: {{max: 4, default: 3}}
gpu: cpu
limits: {{max_batch: 1, max_input: 60, max_output: 40, prefill_chunk: 8}}
certify: off
"""
DRAFTS = {
    "ngram": "ngram",
    "model": "{kind: model, model: small}",
    "self": "{kind: self, layers: 2}",
    "int8": "ngram",
}
TARGETS = {"int8": "{model: big, scheme: {name: w8a16, group_size: 32}, kv_cache: int8}"}
PROMPT = [72, 101, 108, 108, 111, 32, 72, 101, 108, 108, 111, 32, 72, 101, 108, 108, 111]


@pytest.fixture(scope="module")
def bundles(tmp_path_factory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("models")
    llama_folder(root / "big", TinyLlama(num_hidden_layers=3, seed=1))
    llama_folder(root / "small", TinyLlama(hidden_size=32, intermediate_size=48, num_hidden_layers=1, seed=2))
    for name, draft in DRAFTS.items():
        recipe = root / f"{name}.yaml"
        recipe.write_text(RECIPE.format(name=name, draft=draft, target=TARGETS.get(name, "{model: big}")))
        assert status_from_arguments(["build", str(recipe), "--out", str(root / "out")]) == 0
    return {name: root / "out" / name for name in DRAFTS}


def run_host(bundle: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(HOST), str(bundle), "--ids", ",".join(map(str, PROMPT)), *arguments]
    # In a folder of its own: nothing of this checkout is on its path.
    alone = os.environ | {"PYTHONPATH": ""}
    return subprocess.run(command, check=False, cwd=bundle.parent, env=alone, text=True, capture_output=True)


def ids_of_host(bundle: Path, *arguments: str) -> list[int]:
    done = run_host(bundle, *arguments)
    assert done.returncode == 0, done.stderr
    return [int(token) for token in done.stdout.split(",")]


def test_it_imports_numpy_onnxruntime_and_the_standard_library():
    tree = ast.parse(HOST.read_text())
    imported = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    imported |= {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    assert imported - sys.stdlib_module_names == {"numpy", "onnxruntime"}


@pytest.mark.slow
@pytest.mark.parametrize("name", DRAFTS)
@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_its_ids_are_those_of_the_runtime(bundles, name, temperature):
    sampling = ["--temperature", str(temperature), "--top-k", "20", "--seed", "11"]
    found = ids_of_host(bundles[name], "--max-tokens", "24", *sampling)
    with Session.load(bundles[name]) as session:
        params = GenerationParams(max_new_tokens=24, temperature=temperature, top_k=20, seed=11, mode="spec")
        (expected,) = session.generate([PROMPT], params)
    assert found == list(expected.token_ids)


def test_it_refuses_what_the_engines_do_not_hold(bundles):
    done = run_host(bundles["ngram"], "--max-tokens", "400")
    assert done.returncode == 1
    assert "17 and 400 tokens" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--ids", "5,-1"], "ids are 0 to 258"),
        (["--ids", "5,259"], "ids are 0 to 258"),
        (["--max-tokens", "0"], "17 and 0 tokens"),
        (["--ids", "5,x"], "invalid ids value: '5,x'"),
    ],
)
def test_it_refuses_ids_that_the_model_does_not_have(bundles, arguments, message):
    """An embedding looks a negative id up without a word."""
    done = run_host(bundles["ngram"], *arguments)
    assert done.returncode in (1, 2)
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"engines": []}, "(1, 'coupled'): this host runs"),
        ({"engines": [{"format": "tensorrt"}]}, "(1, 'coupled', 'tensorrt'): this host runs"),
        ({"abi": [2, 0]}, "(2, 'coupled', 'onnx'): this host runs"),
        ({"abi": None}, "is no bundle: TypeError"),
        (None, "is no bundle: FileNotFoundError"),
    ],
)
def test_it_refuses_bundles_of_other_hosts_in_a_line(bundles, tmp_path, changed, message):
    manifest = json.loads((bundles["ngram"] / "manifest.json").read_text())
    if changed is not None:
        (tmp_path / "manifest.json").write_text(json.dumps(manifest | changed))
    done = run_host(tmp_path)
    assert done.returncode == 1
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
