"""Calibrated checkpoints for trtllm-serve: scales of inputs and caches, and factors of AWQ, of a real build."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from specc.bundle.store import Store
from specc.errors import SpeccError
from specc.pipeline import BuildRequest, BuildResult, build
from specc.progress import silent
from tests.tiny_families import opened
from tests.tiny_models import TinyLlama, llama_folder

RECIPE = """\
recipe: 1
name: tiny
target: {{model: model, scheme: {scheme}, kv_cache: fp8, calibration: texts.txt}}
draft: {{kind: ngram}}
gamma: 2
gpu: b200
backend: tensorrt-llm
limits: {{max_batch: 1, max_input: 32, max_output: 16}}
certify: off
"""
TEXTS = ("A text of the user's own.", "And another one, a little longer than that.")
SIZES = TinyLlama(
    stored="bf16", hidden_size=128, intermediate_size=256, num_attention_heads=4, num_key_value_heads=2, head_dim=32,
    num_hidden_layers=2, shards=2,
)  # fmt: skip
SCHEMES = {
    "fp8": ("{name: fp8, granularity: tensor}", "input_scale", 448.0),
    "nvfp4": ("{name: nvfp4, method: rtn}", "input_scale", 6 * 448.0),
}


MODELOPT = Path(__file__).with_name("modelopt_calibrated.json")
"""What ModelOpt 0.47 makes of the same model and texts, by modelopt_calibrated.py."""


def made(folder: Path, scheme: str, *overrides: str, stop: Any = "publish") -> BuildResult:
    if not (folder / "model").exists():
        llama_folder(folder / "model", SIZES)
        (folder / "texts.txt").write_text("\n---\n".join(TEXTS))
    (folder / "recipe.yaml").write_text(RECIPE.format(scheme=scheme))
    request = BuildRequest(folder / "recipe.yaml", overrides, folder / "out", stop, False, None, True, False)
    return build(request, silent, on_wait=lambda _: None)


def reference(folder: Path) -> transformers.PreTrainedModel:
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)


def ids_of(folder: Path, text: str) -> torch.Tensor:
    ids = opened(folder).tokenizer().encode(text, add_special_tokens=True).ids
    return torch.tensor([ids])


def largest_seen(folder: Path) -> dict[str, float]:
    """Return the largest input of each linear layer, and the largest key and value of each, in transformers."""
    model, seen = reference(folder), {}

    def note(name: str, values: torch.Tensor) -> None:
        seen[name] = max(seen.get(name, 0.0), float(values.abs().max()))

    def hook(name: str) -> Any:
        return lambda module, inputs, output: note(name, inputs[0])

    for name, module in model.named_modules():
        if isinstance(module, torch.nn.Linear):
            module.register_forward_hook(hook(name))
    with torch.no_grad():
        for text in TEXTS:
            caches = model(ids_of(folder, text), use_cache=True).past_key_values
            for layer, cache in enumerate(caches.layers):
                note(f"model.layers.{layer}.self_attn.k_proj.k_scale", cache.keys)
                note(f"model.layers.{layer}.self_attn.v_proj.v_scale", cache.values)
    return seen


def stored(checkpoint: Path) -> dict[str, np.ndarray]:
    found = {}
    for file in checkpoint.glob("*.safetensors"):
        with safe_open(file, "pt") as tensors:
            for name in tensors.keys():  # noqa: SIM118 - the library has no iterator
                found[name] = tensors.get_tensor(name).float().numpy()
    return found


def logits(folder: Path, checkpoint: Path | None = None) -> np.ndarray:
    """Return the logits of the first text; with a checkpoint, of what its tensors mean."""
    model = reference(folder)
    if checkpoint is not None:
        source = opened(checkpoint)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                parameter.copy_(torch.from_numpy(np.ascontiguousarray(source.read_float32(name))))
    with torch.no_grad():
        return model(ids_of(folder, TEXTS[0])).logits[0].numpy()


@pytest.fixture(autouse=True)
def _own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECC_CACHE", str(tmp_path / "cache"))


@pytest.mark.slow
@pytest.mark.parametrize("name", SCHEMES)
def test_static_scales_are_those_of_the_largest_activations(tmp_path: Path, name: str) -> None:
    scheme, part, reach = SCHEMES[name]
    result = made(tmp_path, scheme)
    tensors = stored(result.path / "checkpoints" / "target")
    seen = largest_seen(tmp_path / "model")
    layers = [module for module in seen if module.endswith("_proj")]
    assert len(layers) == 14
    for module in layers:
        np.testing.assert_allclose(tensors[f"{module}.{part}"], seen[module] / reach, rtol=1e-4)
    caches = {key: value for key, value in seen.items() if key.endswith(("k_scale", "v_scale"))}
    assert {key for key in tensors if key.endswith(("k_scale", "v_scale"))} == set(caches)
    assert len(caches) == 4
    assert all(tensors[key] == 1 for key in caches)
    plain, quantized = logits(tmp_path / "model"), logits(tmp_path / "model", result.path / "checkpoints" / "target")
    assert np.corrcoef(plain.ravel(), quantized.ravel())[0, 1] > {"fp8": 0.99, "nvfp4": 0.9}[name]


@pytest.mark.slow
def test_nvfp4_is_what_modelopt_makes_of_the_same_model_and_texts(tmp_path: Path) -> None:
    found: dict[str, float | str] = {}
    for file in (made(tmp_path, SCHEMES["nvfp4"][0]).path / "checkpoints" / "target").glob("*.safetensors"):
        with safe_open(file, "pt") as tensors:
            for name in tensors.keys():  # noqa: SIM118 - the library has no iterator
                tensor = tensors.get_tensor(name)
                if name.endswith("input_scale"):
                    found[name] = float(tensor)
                elif "_proj." in name and not name.endswith((".k_scale", ".v_scale")):
                    found[name] = hashlib.sha256(tensor.flatten().view(torch.uint8).numpy().tobytes()).hexdigest()
    wanted = json.loads(MODELOPT.read_text())
    assert set(found) == set(wanted)
    assert len(wanted) == 14 * 4
    scales = {name for name in wanted if name.endswith("input_scale")}
    assert {name: found[name] for name in set(wanted) - scales} == {name: wanted[name] for name in set(wanted) - scales}
    for name in scales:
        np.testing.assert_allclose(found[name], wanted[name], rtol=1e-5)  # two float32 forward passes


@pytest.mark.slow
def test_a_large_value_gets_a_scale_of_its_cache(tmp_path: Path) -> None:
    folder = llama_folder(tmp_path / "model", SIZES)
    (tmp_path / "texts.txt").write_text("\n---\n".join(TEXTS))
    seen = largest_seen(folder)["model.layers.0.self_attn.v_proj.v_scale"]
    for file in folder.glob("*.safetensors"):
        tensors = load_file(file)
        for key in tensors:
            if key == "model.layers.0.self_attn.v_proj.weight":
                tensors[key] = (tensors[key].float() * 1000 / seen).bfloat16()
        save_file(tensors, file, metadata={"format": "pt"})
    found = stored(made(tmp_path, SCHEMES["fp8"][0]).path / "checkpoints" / "target")
    largest = largest_seen(folder)["model.layers.0.self_attn.v_proj.v_scale"]
    assert largest > 900
    np.testing.assert_allclose(found["model.layers.0.self_attn.v_proj.v_scale"], largest / 448, rtol=1e-4)
    assert found["model.layers.0.self_attn.k_proj.k_scale"] == 1


@pytest.mark.slow
@pytest.mark.parametrize("method", ["awq", "gptq"])
def test_int4_that_looked_at_inputs_is_the_same_model(tmp_path: Path, method: str) -> None:
    result = made(tmp_path, f"{{name: w4a16, method: {method}}}")
    checkpoint = result.path / "checkpoints" / "target"
    plain = logits(tmp_path / "model")
    found = logits(tmp_path / "model", checkpoint)
    norms = [key for key in opened(checkpoint).headers if "layernorm" in key]
    changed = [
        key
        for key in norms
        if not np.array_equal(opened(checkpoint).read_float32(key), opened(tmp_path / "model").read_float32(key))
    ]
    assert changed == (norms if method == "awq" else [])
    rounded = logits(tmp_path / "model", made(tmp_path, "{name: w4a16, method: rtn}").path / "checkpoints" / "target")
    errors = [float(np.square(one - plain).mean()) for one in (found, rounded)]
    assert errors[0] < errors[1]


@pytest.mark.slow
def test_texts_are_read_once_for_every_gamma(tmp_path: Path) -> None:
    def statistics() -> int:
        with Store(rehash=False) as store:
            return sum(entry.describe.startswith("statistics") for entry in store.entries())

    made(tmp_path, SCHEMES["fp8"][0])
    made(tmp_path, SCHEMES["fp8"][0], "gamma=3")
    made(tmp_path, SCHEMES["nvfp4"][0])
    assert statistics() == 1
    (tmp_path / "texts.txt").write_text("Other words.")
    first = stored(made(tmp_path, SCHEMES["fp8"][0]).path / "checkpoints" / "target")
    assert statistics() == 2
    assert all(np.isfinite(values).all() for values in first.values())


def test_the_layout_of_a_calibrated_checkpoint_needs_no_text(tmp_path: Path) -> None:
    result = made(tmp_path, SCHEMES["nvfp4"][0], stop="layout")
    assert (result.path / "target" / "hf_quant_config.json").is_file()


def test_nvfp4_needs_blackwell(tmp_path: Path) -> None:
    with pytest.raises(SpeccError) as caught:
        made(tmp_path, SCHEMES["nvfp4"][0], "gpu=h100-sxm-80gb", stop="plan")
    assert caught.value.code == "SPC302"
