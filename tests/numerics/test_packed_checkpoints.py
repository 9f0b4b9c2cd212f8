"""Logits of our graph over quantized checkpoints against transformers' model of the numbers that they mean."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

from tests.quantized_folders import LAYOUTS, quantized_folder
from tests.tiny_families import engine_from_source, opened, reference_logits

RTOL, ATOL = 1e-4, 1e-4
"""As for plain checkpoints: the same float32 numbers go into both."""


@pytest.mark.parametrize("name", ["awq", "gptq_ordered", "float_quantized", "modelopt_nvfp4"])
def test_logits_are_those_of_the_expanded_model(tmp_path: Path, name: str) -> None:
    meant = quantized_folder(tmp_path / "m", LAYOUTS[name])
    config = json.loads((tmp_path / "m" / "config.json").read_text())
    del config["quantization_config"]
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**config)).eval()
    model.load_state_dict({tensor: torch.from_numpy(numbers) for tensor, numbers in meant.items()})
    ids = np.random.default_rng(0).integers(0, 256, 24)
    engine = engine_from_source(opened(tmp_path / "m"), tmp_path / "engine")
    rows = list(range(24))
    np.testing.assert_allclose(engine.logits(ids, 0, rows), reference_logits(model, ids), RTOL, ATOL)
