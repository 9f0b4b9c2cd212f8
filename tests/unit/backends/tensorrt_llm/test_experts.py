"""Experts of Mixtral in rank files: stacked, up before gate, with the scales that the loader asks for."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from specc.errors import SpeccError
from specc.plan.trtllm_stored import stored_from_source
from tests.quantized_folders import LAYOUTS, pack_folder
from tests.rank_files import Tensors, model_plan, read_file, required_tensors, write_ranks
from tests.rank_forward import wide_from_rank
from tests.tiny_families import TinyFamily, folder_from_model, model_from_family, opened

KEYS = {"num_local_experts": 3, "num_experts_per_tok": 2}
MIXTRAL = TinyFamily("MixtralConfig", "MixtralForCausalLM", KEYS)
WIDE = TinyFamily("MixtralConfig", "MixtralForCausalLM", KEYS | {"intermediate_size": 128})


def ranks_of_files(folder: Path) -> list[Tensors]:
    """Check every rank against the loader's rule; return its tensors."""
    config = json.loads((folder / "config.json").read_text())
    found = []
    for rank in range(config["mapping"]["world_size"]):
        shapes, tensors = read_file(folder / f"rank{rank}.safetensors")
        assert shapes == required_tensors(config, rank)
        found.append(tensors)
    return found


def test_experts_in_fp8_have_a_scale_each(tmp_path: Path) -> None:
    """Mixtral: up and gate of an expert share the larger of theirs, all experts the largest of their inputs."""
    folder = folder_from_model(model_from_family(MIXTRAL), tmp_path / "m")
    meant = pack_folder(folder, LAYOUTS["modelopt_fp8"])
    plan = model_plan(2, weights="stored", scheme="fp8", kv_cache="fp8")
    found = ranks_of_files(write_ranks(opened(folder), plan, tmp_path / "c"))
    prefix, model = "transformer.layers.0.mlp.", "model.layers.0.block_sparse_moe.experts."
    wide = [wide_from_rank(rank) for rank in found]
    up, gate = (
        np.concatenate([np.split(rank[f"{prefix}fc.weight"], 2, axis=1)[half] for rank in wide], axis=1)
        for half in (0, 1)
    )
    down = np.concatenate([rank[f"{prefix}proj.weight"] for rank in wide], axis=2)
    for expert in range(3):
        own = {part: meant[f"{model}{expert}.{w}.weight"] for part, w in (("up", "w3"), ("gate", "w1"), ("down", "w2"))}
        scale = found[0][f"{prefix}fc.weights_scaling_factor"][expert, 0]
        np.testing.assert_allclose(scale, max(np.abs(own[part]).max() for part in ("up", "gate")) / 448, rtol=1e-6)
        np.testing.assert_array_equal(down[expert], own["down"])
        for value, part in ((up[expert], "up"), (gate[expert], "gate")):
            limit = np.maximum(np.abs(own[part]) / 16, scale * 2.0**-10) * (1 + 1e-6)
            assert (np.abs(value - own[part]) <= limit).all()
    assert found[1][f"{prefix}fc.activation_scaling_factor"] == np.float32(0.1)


@pytest.mark.parametrize("tp", [1, 2])
@pytest.mark.parametrize("name", ["awq", "gptq", "modelopt_int4_factors"])
def test_experts_in_4_bits_are_stacked(tmp_path: Path, name: str, tp: int) -> None:
    """Mixtral: codes, scales, zeros and factors of every expert, up before gate."""
    folder = folder_from_model(model_from_family(WIDE), tmp_path / "m")
    meant = pack_folder(folder, LAYOUTS[name])
    source = opened(folder)
    plan = model_plan(tp, dtype="f16", weights="stored", scheme="w4a16", int4=stored_from_source(source).int4)
    found = ranks_of_files(write_ranks(source, plan, tmp_path / "c"))
    wide = [wide_from_rank(rank) for rank in found]
    for layer in range(source.facts.num_hidden_layers):
        fc, proj = (f"transformer.layers.{layer}.mlp.{part}.weight" for part in ("fc", "proj"))
        halves = [np.split(rank[fc], 2, axis=1) for rank in wide]
        whole = {w: np.concatenate([half[i] for half in halves], axis=1) for i, w in ((0, "w3"), (1, "w1"))}
        whole["w2"] = np.concatenate([rank[proj] for rank in wide], axis=2)
        for (w, value), expert in product(whole.items(), range(3)):
            wanted = meant[f"model.layers.{layer}.block_sparse_moe.experts.{expert}.{w}.weight"]
            # zeros are rounded to float16: half a step of 2^-10 of at most 8 scales, 2^-3 of the largest magnitude
            limit = 2.0**-11 * np.abs(wanted).max() if name == "awq" else 1e-6 * np.abs(wanted).max()
            assert np.abs(value[expert] - wanted).max() <= limit


def test_experts_whose_inputs_have_factors_of_their_own_are_refused(tmp_path: Path) -> None:
    """The loader keeps the first expert's row alone."""

    def one_differs(stored: Tensors) -> None:
        name = "model.layers.1.block_sparse_moe.experts.2.w2.pre_quant_scale"
        stored[name] = stored[name] * np.float16(2)

    folder = folder_from_model(model_from_family(WIDE), tmp_path / "m")
    pack_folder(folder, LAYOUTS["modelopt_int4_factors"], one_differs)
    source = opened(folder)
    plan = model_plan(1, dtype="f16", weights="stored", scheme="w4a16", int4=stored_from_source(source).int4)
    with pytest.raises(SpeccError) as caught:
        write_ranks(source, plan, tmp_path / "c")
    assert caught.value.code == "SPC405"
    assert "experts.2" in caught.value.place
