"""Statistics from our tapped graph against hooks on transformers' linear layers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from specc.calibrate import collect
from specc.calibrate.collect import statistics_of_taps
from specc.lower.place import link_or_copy
from specc.lower.tapped import write_tapped
from specc.lower.weights import write_weights
from specc.progress import silent
from tests.tiny_engines import plan_from_facts, tiny_graph_plan
from tests.tiny_families import TinyFamily, folder_from_model, model_from_family, opened

RTOL = 1e-4
FAMILIES = {
    "mistral": TinyFamily("MistralConfig", "MistralForCausalLM", {"sliding_window": None, "head_dim": 24}),
    "olmo2": TinyFamily("Olmo2Config", "Olmo2ForCausalLM", {"head_dim": ...}),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_statistics_are_those_of_the_reference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, family: str) -> None:
    model = model_from_family(FAMILIES[family])
    source = opened(folder_from_model(model, tmp_path / "m"))
    plan = plan_from_facts(source.facts, tiny_graph_plan())
    for name in ("weights", "tapped"):
        (tmp_path / name).mkdir()
    write_weights(plan, source, tmp_path / "weights", link_or_copy, silent)
    tapped = write_tapped(plan, tmp_path / "weights", tmp_path / "tapped", link_or_copy, caches=True)
    monkeypatch.setattr(collect, "HESSIAN_BYTES", 1 << 16)
    rng = np.random.default_rng(0)
    ids = [rng.integers(0, 250, 20), rng.integers(0, 250, 31)]
    seen: dict[str, list[np.ndarray]] = {}

    def hook(name: str):
        return lambda module, inputs, output: seen.setdefault(name, []).append(
            inputs[0].reshape(-1, module.in_features)
        )

    linear = {
        f"{name}.weight": module
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.Linear) and "layers" in name
    }
    handles = [module.register_forward_hook(hook(name)) for name, module in linear.items()]
    cached: dict[str, list[np.ndarray]] = {}
    with torch.no_grad():
        for text in ids:
            caches = model(torch.from_numpy(text[None]), use_cache=True).past_key_values
            for layer, (keys, values) in enumerate((cache.keys, cache.values) for cache in caches.layers):
                for kind, rows in (("k", keys), ("v", values)):
                    name = f"model.layers.{layer}.self_attn.{kind}_cache"
                    cached.setdefault(name, []).append(rows[0].transpose(0, 1).flatten(1))
    for handle in handles:
        handle.remove()
    got = dict(statistics_of_taps(tapped, ids, hessian=True, progress=silent))
    assert {name for names in tapped.taps.values() for name in names} == set(linear) | set(cached)
    seen |= cached
    for tap, statistics in got.items():
        for name in tapped.taps[tap]:
            inputs = torch.cat(seen[name]).double().numpy()
            assert statistics.tokens == 51
            np.testing.assert_allclose(statistics.mean_abs, np.abs(inputs).mean(axis=0), RTOL, 1e-5)
            np.testing.assert_allclose(statistics.max_abs, np.abs(inputs).max(axis=0), RTOL, 1e-5)
            np.testing.assert_allclose(statistics.mean_square, np.square(inputs).mean(axis=0), RTOL, 1e-5)
            np.testing.assert_allclose(statistics.hessian, inputs.T @ inputs / 51, RTOL, 1e-4)
