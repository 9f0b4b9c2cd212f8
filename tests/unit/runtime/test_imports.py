"""The runtime imports and runs where the compiler's packages cannot be imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
PROGRAM = """
import sys

ALLOWED = {"numpy", "tokenizers", "jinja2", "markupsafe", "onnxruntime", "specc", "tests", "huggingface_hub"}
SPECC = {"errors", "bundle", "speculation", "catalog", "runtime", "progress", "version"}


class Refuse:
    def find_spec(self, name, path=None, target=None):
        parts = name.split(".")
        compiler = parts[0] == "specc" and len(parts) > 1 and parts[1] not in SPECC
        known = parts[0] in ALLOWED | sys.stdlib_module_names or parts[0].startswith("_")
        if compiler or not known:
            raise ModuleNotFoundError(f"refused: {name}")
        return None


sys.meta_path.insert(0, Refuse())
from specc.runtime import Chunk, Generation, GenerationParams, Session
import specc.runtime.runners.onnxruntime, specc.runtime.runners.tensorrt
from tests.double_runner import ToyModel, ToyRunner, toy_manifest

assert "onnxruntime" not in sys.modules
session = Session(toy_manifest(ToyModel()), ToyRunner(ToyModel()))
print(len(session.generate([[1]], GenerationParams(max_new_tokens=8))[0].token_ids))
"""


def test_session_runs_without_the_compilers_packages():
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "8\n"
