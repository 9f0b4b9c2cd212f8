"""Every rank holds exactly what the loader asks for, and all ranks together hold the source, bit for bit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from specc.backends.tensorrt_llm.layout import layers_of_stage
from specc.plan.trtllm_plan import Int4Groups
from specc.plan.trtllm_stored import stored_from_source
from tests.quantized_folders import LAYOUTS, quantized_folder
from tests.rank_files import Tensors, model_plan, read_file, required_tensors, write_ranks
from tests.rank_forward import wide_from_rank
from tests.tiny_families import TinyFamily, folder_from_model, model_from_family, opened
from tests.tiny_models import TinyLlama, llama_folder

LLAMA = TinyLlama(stored="bf16", num_hidden_layers=3, num_attention_heads=8, num_key_value_heads=4,
                  intermediate_size=128)  # fmt: skip
FAMILIES = {
    "qwen2": TinyFamily("Qwen2Config", "Qwen2ForCausalLM", {"vocab_size": 263, "head_dim": ...}),
    "qwen3": TinyFamily("Qwen3Config", "Qwen3ForCausalLM", {"tie_word_embeddings": True}),
    "gemma2": TinyFamily("Gemma2Config", "Gemma2ForCausalLM", {"tie_word_embeddings": True}),
    "gemma3": TinyFamily("Gemma3TextConfig", "Gemma3ForCausalLM", {"sliding_window": 32, "tie_word_embeddings": True}),
    "mixtral": TinyFamily("MixtralConfig", "MixtralForCausalLM", {"num_local_experts": 3, "num_experts_per_tok": 2}),
}


def ranks(folder: Path) -> tuple[dict[str, Any], list[Tensors]]:
    """Check every rank against the loader's rule; return the configuration and the tensors of each rank."""
    config = json.loads((folder / "config.json").read_text())
    found = []
    for rank in range(config["mapping"]["world_size"]):
        shapes, tensors = read_file(folder / f"rank{rank}.safetensors")
        assert shapes == required_tensors(config, rank)
        found.append(tensors)
    return config, found


@pytest.mark.parametrize(("tp", "pp"), [(1, 1), (2, 1), (4, 1), (8, 1), (1, 2), (2, 2), (1, 3)])
def test_a_llama_in_parts_is_the_source(tmp_path: Path, tp: int, pp: int) -> None:
    source = opened(llama_folder(tmp_path / "m", LLAMA))
    config, found = ranks(write_ranks(source, model_plan(tp, pp), tmp_path / "c"))
    assert_reassembled(config, found, source)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("tp", [1, 2, 4])
def test_a_family_in_parts_is_the_source(tmp_path: Path, name: str, tp: int) -> None:
    model = model_from_family(FAMILIES[name]).bfloat16()
    source = opened(folder_from_model(model, tmp_path / "m"))
    config, found = ranks(write_ranks(source, model_plan(tp), tmp_path / "c"))
    assert_reassembled(config, found, source)


@pytest.mark.parametrize("tp", [1, 2])
def test_fp8_rows_are_codes_and_scales(tmp_path: Path, tp: int) -> None:
    source = opened(llama_folder(tmp_path / "m", LLAMA))
    plan = model_plan(tp, weights="fp8 rows", scheme="fp8", kv_cache="fp8")
    config, found = ranks(write_ranks(source, plan, tmp_path / "c"))
    assert config["quantization"] == {
        "quant_algo": "FP8_PER_CHANNEL_PER_TOKEN", "kv_cache_quant_algo": "FP8", "clamp_val": [-1200.0, 1200.0],
    }  # fmt: skip
    wanted = source.read_float32("model.layers.0.mlp.gate_proj.weight")
    each = len(wanted) // tp
    for rank, tensors in enumerate(found):
        codes = tensors["transformer.layers.0.mlp.fc.weight"].astype(np.float32)
        scales = tensors["transformer.layers.0.mlp.fc.per_channel_scale"]
        assert np.abs(codes).max(axis=1).min() == 448.0
        part = wanted[rank * each : (rank + 1) * each]
        # a code of e4m3 has 4 bits of precision: half a step of 1/16 of its own size, or of the smallest step 2^-9
        limit = np.maximum(np.abs(part) / 16, scales[:, None] * 2.0**-10) * (1 + 1e-6)
        assert (np.abs(codes * scales[:, None] - part) <= limit).all()


def test_static_fp8_keeps_codes_and_shares_scales(tmp_path: Path) -> None:
    """ModelOpt's checkpoint: q, k and v under one scale, gate and up under one, the others as they are stored."""
    meant = quantized_folder(tmp_path / "m", LAYOUTS["modelopt_fp8"], LLAMA, change=differing_inputs)
    source = opened(tmp_path / "m")
    plan = model_plan(2, weights="stored", scheme="fp8", kv_cache="fp8")
    config, found = ranks(write_ranks(source, plan, tmp_path / "c"))
    assert config["quantization"] == {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}
    prefix, model = "transformer.layers.0.", "model.layers.0."
    down = [tensors[f"{prefix}mlp.proj.weight"] for tensors in found]
    scale = found[0][f"{prefix}mlp.proj.weights_scaling_factor"]
    assert np.array_equal(
        np.concatenate(down, axis=1).astype(np.float32) * scale, meant[f"{model}mlp.down_proj.weight"]
    )
    for names, part in ((("q", "k", "v"), "attention.qkv"), (("gate", "up"), "mlp.fc"), (("gate", "up"), "mlp.gate")):
        block = "self_attn" if "attention" in part else "mlp"
        own = [meant[f"{model}{block}.{name}_proj.weight"] for name in names]
        scales = [np.abs(weight).max() / 448 for weight in own]
        shared = found[1][f"{prefix}{part}.weights_scaling_factor"]
        np.testing.assert_allclose(shared, max(scales), rtol=1e-6)
        assert found[1][f"{prefix}{part}.activation_scaling_factor"] == np.float32(0.1 * len(names))
    fc = np.concatenate([t[f"{prefix}mlp.fc.weight"] for t in found]).astype(np.float32)
    shared = found[0][f"{prefix}mlp.fc.weights_scaling_factor"]
    gate = meant[f"{model}mlp.gate_proj.weight"]
    assert (np.abs(fc * shared - gate) <= np.maximum(np.abs(gate) / 16, shared * 2.0**-10) * (1 + 1e-6)).all()


@pytest.mark.parametrize("tp", [1, 2])
@pytest.mark.parametrize("name", ["awq", "gptq", "modelopt_int4", "modelopt_int4_factors"])
def test_codes_of_4_bits_stay_and_are_laid_out_anew(tmp_path: Path, name: str, tp: int) -> None:
    meant = quantized_folder(tmp_path / "m", LAYOUTS[name], LLAMA)
    source = opened(tmp_path / "m")
    int4 = stored_from_source(source).int4
    assert int4 == Int4Groups(32, zero_point=name == "awq", input_factors=name.endswith("factors"))
    plan = model_plan(tp, dtype="f16", weights="stored", scheme="w4a16", int4=int4)
    config, found = ranks(write_ranks(source, plan, tmp_path / "c"))
    assert config["quantization"] == {
        "quant_algo": "W4A16_AWQ", "kv_cache_quant_algo": None,
        "group_size": 32, "has_zero_point": name == "awq", "pre_quant_scale": name.endswith("factors"),
    }  # fmt: skip
    heads, kv = 128 // tp, 64 // tp
    wide = [wide_from_rank(tensors) for tensors in found]
    q, k, v = (np.concatenate(parts) for parts in zip(
        *(np.split(rank["transformer.layers.1.attention.qkv.weight"], (heads, heads + kv)) for rank in wide),
        strict=True,
    ))  # fmt: skip
    down = np.concatenate([rank["transformer.layers.1.mlp.proj.weight"] for rank in wide], axis=1)
    gate = np.concatenate([rank["transformer.layers.1.mlp.fc.weight"] for rank in wide])
    for part, value in (("self_attn.q", q), ("self_attn.k", k), ("self_attn.v", v), ("mlp.down", down),
                        ("mlp.gate", gate)):  # fmt: skip
        wanted = meant[f"model.layers.1.{part}_proj.weight"]
        # zeros are rounded to float16: half a step of 2^-10 of at most 8 scales, 2^-3 of the largest magnitude
        limit = 2.0**-11 * np.abs(wanted).max() if name == "awq" else 1e-6 * np.abs(wanted).max()
        assert np.abs(value - wanted).max() <= limit


def test_scales_of_caches_come_from_the_source_the_larger_of_keys_and_values(tmp_path: Path) -> None:
    def with_scales(stored: Tensors) -> None:
        for part, scale in (("k_proj.k_scale", 0.25), ("v_proj.v_scale", 0.5)):
            stored[f"model.layers.1.self_attn.{part}"] = np.array(scale, np.float32)

    quantized_folder(tmp_path / "m", LAYOUTS["modelopt_fp8"], LLAMA, change=with_scales)
    plan = model_plan(2, weights="stored", scheme="fp8", kv_cache="fp8")
    _, found = ranks(write_ranks(opened(tmp_path / "m"), plan, tmp_path / "c"))
    name = "attention.kv_cache_scaling_factor"
    scales = [[float(rank[f"transformer.layers.{layer}.{name}"][0]) for layer in range(3)] for rank in found]
    assert scales == [[1.0, 0.5, 1.0]] * 2


def differing_inputs(stored: Tensors) -> None:
    """Give q, k and v, and gate and up, inputs of different scales: 0.1, 0.2 and 0.3."""
    for index, names in enumerate((("q", "gate"), ("k", "up"), ("v",)), 1):
        for key in stored:
            if key.endswith("input_scale") and key.split(".")[-2].removesuffix("_proj") in names:
                stored[key] = np.array(0.1 * index, np.float32)


def test_heads_are_repeated_when_there_are_fewer_than_gpus(tmp_path: Path) -> None:
    source = opened(
        llama_folder(tmp_path / "m", TinyLlama(stored="bf16", num_attention_heads=8, num_key_value_heads=2))
    )
    config, found = ranks(write_ranks(source, model_plan(4), tmp_path / "c"))
    assert config["num_key_value_heads"] == 2
    keys = source.read_float32("model.layers.0.self_attn.k_proj.weight").reshape(2, 16, 64)
    held = [tensors["transformer.layers.0.attention.qkv.weight"][32:48].astype(np.float32) for tensors in found]
    for rank, head in enumerate((0, 0, 1, 1)):
        assert np.array_equal(held[rank], keys[head])


@pytest.mark.parametrize(("layers", "pp"), [(80, 4), (7, 3), (32, 5), (3, 3)])
def test_stages_are_those_of_tensor_split(layers: int, pp: int) -> None:
    split = [list(part) for part in np.array_split(np.arange(layers), pp)]
    assert [list(layers_of_stage(layers, pp, stage)) for stage in range(pp)] == split


def assert_reassembled(config: dict[str, Any], found: list[Tensors], source: Any) -> None:
    """Put the parts of all ranks together again and compare every source tensor's bits."""
    tp, pp = config["mapping"]["tp_size"], config["mapping"]["pp_size"]
    whole = dict(_tables(config, found, tp))
    first = 0
    for stage in range(pp):
        group = found[stage * tp : (stage + 1) * tp]
        local = 1 + max(int(name.split(".")[2]) for name in group[0] if name.startswith("transformer.layers."))
        for layer in range(local):
            parts = [
                {name.removeprefix(f"transformer.layers.{layer}."): value for name, value in tensors.items()
                 if name.startswith(f"transformer.layers.{layer}.")}
                for tensors in group
            ]  # fmt: skip
            whole |= {f"model.layers.{first + layer}.{name}": value for name, value in _layer(config, parts).items()}
        first += local
    assert set(whole) == {*source.headers, "lm_head.weight"}
    offset = np.float32(1.0 if source.facts.norms.unit_offset else 0.0)
    for name, value in whole.items():
        stored = source.read_float32(name if name in source.headers else "model.embed_tokens.weight")
        if "norm" in name:
            stored = (stored + offset).astype(ml_dtypes.bfloat16)
        assert np.array_equal(value.astype(np.float32), stored.astype(np.float32)), name


def _tables(config: dict[str, Any], found: list[Tensors], tp: int) -> Any:
    first, last, vocab = found[:tp], found[-tp:], config["vocab_size"]
    embedding = [tensors["transformer.vocab_embedding.weight"] for tensors in first]
    if config["use_parallel_embedding"]:
        yield "model.embed_tokens.weight", np.concatenate(embedding)[:vocab]
    else:
        assert all(np.array_equal(part, embedding[0]) for part in embedding)
        yield "model.embed_tokens.weight", embedding[0]
    head = np.concatenate([tensors["lm_head.weight"] for tensors in last])
    assert not head[vocab:].astype(np.float32).any()
    yield "lm_head.weight", head[:vocab]
    yield "model.norm.weight", last[0]["transformer.ln_f.weight"]


def _layer(config: dict[str, Any], parts: list[Tensors]) -> Tensors:
    size, tp, kv = config["head_size"], len(parts), config["num_key_value_heads"]
    heads, kv_here = config["num_attention_heads"] // tp, max(1, kv // tp)
    cuts = (heads * size, (heads + kv_here) * size)
    once = max(1, tp // kv)  # ranks that hold the same head
    whole: Tensors = {}
    for kind in ("weight", "bias"):
        if f"attention.qkv.{kind}" in parts[0]:
            split = [np.split(part[f"attention.qkv.{kind}"], cuts) for part in parts]
            whole[f"self_attn.q_proj.{kind}"] = np.concatenate([part[0] for part in split])
            for index, name in ((1, "k"), (2, "v")):
                whole[f"self_attn.{name}_proj.{kind}"] = np.concatenate([part[index] for part in split[::once]])
    whole["self_attn.o_proj.weight"] = np.concatenate([part["attention.dense.weight"] for part in parts], axis=1)
    for name, stored in (("input_layernorm", "input_layernorm"), ("post_layernorm", "post_attention_layernorm"),
                         ("pre_feedforward_layernorm",) * 2, ("post_feedforward_layernorm",) * 2,
                         ("attention.q_layernorm", "self_attn.q_norm"), ("attention.k_layernorm", "self_attn.k_norm"),
                         ("mlp.router", "mlp.gate")):  # fmt: skip
        if f"{name}.weight" in parts[0]:
            assert all(np.array_equal(part[f"{name}.weight"], parts[0][f"{name}.weight"]) for part in parts)
            whole[f"{stored}.weight"] = parts[0][f"{name}.weight"]
    return whole | _feed_forward(parts)


def _feed_forward(parts: list[Tensors]) -> Tensors:
    down = np.concatenate([part["mlp.proj.weight"] for part in parts], axis=-1)
    if "mlp.router.weight" not in parts[0]:
        return {
            "mlp.gate_proj.weight": np.concatenate([part["mlp.fc.weight"] for part in parts]),
            "mlp.up_proj.weight": np.concatenate([part["mlp.gate.weight"] for part in parts]),
            "mlp.down_proj.weight": down,
        }
    stacks = [np.split(part["mlp.fc.weight"], 2, axis=1) for part in parts]  # up, then gate
    up, gate = (np.concatenate([stack[i] for stack in stacks], axis=1) for i in (0, 1))
    return {
        f"mlp.experts.{e}.{name}_proj.weight": value[e]
        for e in range(len(down))
        for name, value in (("up", up), ("gate", gate), ("down", down))
    }
