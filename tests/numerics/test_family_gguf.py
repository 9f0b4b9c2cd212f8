"""A GGUF file of each family gives the logits and the weights of the folder that it was made of."""

from __future__ import annotations

import numpy as np
import pytest

from tests.family_gguf import gguf_from_folder
from tests.tiny_engines import EMITTED
from tests.tiny_families import (
    LONGROPE,
    YARN,
    TinyFamily,
    engine_from_source,
    folder_from_model,
    model_from_family,
    opened,
)

RTOL, ATOL = 1e-5, 2e-5
"""Equal weights; metadata is float32 where configurations are decimal, and 1 + w is rounded once in the file."""
TIED = {"tie_word_embeddings": True}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 64, "norm_topk_prob": True}
GRANITE = {
    "head_dim": ...,
    "embedding_multiplier": 12.0,
    "residual_multiplier": 0.22,
    "attention_multiplier": 0.125,
    "logits_scaling": 8.0,
}
FAMILIES = {
    "mistral": TinyFamily("MistralConfig", "MistralForCausalLM", {"sliding_window": None}),
    "qwen2": TinyFamily("Qwen2Config", "Qwen2ForCausalLM", {"head_dim": ..., "rope_parameters": YARN}),
    "qwen3": TinyFamily("Qwen3Config", "Qwen3ForCausalLM", {"head_dim": 24}),
    "smollm3": TinyFamily("SmolLM3Config", "SmolLM3ForCausalLM", {"head_dim": ..., **TIED}),
    "granite": TinyFamily("GraniteConfig", "GraniteForCausalLM", GRANITE),
    "olmo2": TinyFamily("Olmo2Config", "Olmo2ForCausalLM", {"head_dim": ...}),
    "phi3": TinyFamily(
        "Phi3Config",
        "Phi3ForCausalLM",
        {"head_dim": ..., "original_max_position_embeddings": 128, "sliding_window": 37, "rope_parameters": LONGROPE},
    ),
    "gemma2": TinyFamily(
        "Gemma2Config", "Gemma2ForCausalLM", {"sliding_window": 37, "query_pre_attn_scalar": 16, **TIED}
    ),
    "gemma3": TinyFamily(
        "Gemma3TextConfig",
        "Gemma3ForCausalLM",
        {"sliding_window": 37, "query_pre_attn_scalar": 16, "num_hidden_layers": 6, **TIED},
    ),
    "qwen3moe": TinyFamily("Qwen3MoeConfig", "Qwen3MoeForCausalLM", EXPERTS),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_logits_and_weights_are_those_of_the_folder(name: str, tmp_path) -> None:
    folder = folder_from_model(model_from_family(FAMILIES[name]), tmp_path / "folder")
    plain, packed = opened(folder), opened(gguf_from_folder(folder, tmp_path / "m.gguf"))
    assert set(packed.headers) == set(plain.headers)
    shift = plain.facts.norms.unit_offset
    for tensor in plain.headers:
        expected = plain.read_float32(tensor) + np.float32(shift and tensor.endswith("norm.weight"))
        np.testing.assert_array_equal(packed.read_float32(tensor), expected, err_msg=tensor)
    ids = np.random.default_rng(3).integers(3, EMITTED, 200)
    rows = [0, 50, 199]
    expected = engine_from_source(plain, tmp_path / "a").logits(ids, 0, rows)
    np.testing.assert_allclose(engine_from_source(packed, tmp_path / "b").logits(ids, 0, rows), expected, RTOL, ATOL)


@pytest.mark.parametrize("name", ["phi3", "qwen3moe"])
def test_parts_of_block_quantized_tensors_are_the_parts_of_the_whole(name: str, tmp_path) -> None:
    keys = FAMILIES[name].keys | {"num_hidden_layers": 1}
    folder = folder_from_model(
        model_from_family(TinyFamily(FAMILIES[name].config, FAMILIES[name].model, keys)), tmp_path / "folder"
    )
    plain, packed = opened(folder), opened(gguf_from_folder(folder, tmp_path / "m.gguf", "q8_0"))
    assert packed.facts.stored_dtype == "q8_0"
    for tensor in plain.headers:
        expected = plain.read_float32(tensor)
        step = np.abs(expected).max() / 127
        np.testing.assert_allclose(packed.read_float32(tensor), expected, rtol=0, atol=step, err_msg=tensor)
