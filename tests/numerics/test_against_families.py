"""The target graph of each family, from safetensors, against transformers (torch, float32) on tiny random models."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.tiny_engines import EMITTED
from tests.tiny_families import (
    LONGROPE,
    YARN,
    TinyFamily,
    engine_from_source,
    folder_from_model,
    model_from_family,
    opened,
    reference_logits,
)

# Logits have magnitudes of 1 to 30; both sides compute in float32, in other orders.
RTOL, ATOL = 1e-4, 1e-4
LENGTH = 400
FAMILIES = {
    "mistral": TinyFamily("MistralConfig", "MistralForCausalLM", {"sliding_window": None, "head_dim": 24}),
    "mistral, window": TinyFamily("MistralConfig", "MistralForCausalLM", {"sliding_window": 37}),
    "qwen2": TinyFamily("Qwen2Config", "Qwen2ForCausalLM", {"head_dim": ...}),
    "qwen2, upper window": TinyFamily(
        "Qwen2Config",
        "Qwen2ForCausalLM",
        {"head_dim": ..., "use_sliding_window": True, "sliding_window": 37, "max_window_layers": 2},
    ),
    "qwen3": TinyFamily("Qwen3Config", "Qwen3ForCausalLM", {"head_dim": 24, "tie_word_embeddings": True}),
    "smollm3": TinyFamily("SmolLM3Config", "SmolLM3ForCausalLM", {"head_dim": ...}),
    "smollm3, window": TinyFamily(
        "SmolLM3Config",
        "SmolLM3ForCausalLM",
        {"head_dim": ..., "no_rope_layers": [1, 0, 0, 1], "use_sliding_window": True, "sliding_window": 37},
    ),
    "granite": TinyFamily(
        "GraniteConfig",
        "GraniteForCausalLM",
        {
            "head_dim": ...,
            "embedding_multiplier": 12.0,
            "residual_multiplier": 0.22,
            "attention_multiplier": 0.125,
            "logits_scaling": 8.0,
        },
    ),
    "olmo2": TinyFamily("Olmo2Config", "Olmo2ForCausalLM", {"head_dim": ...}),
    "phi3": TinyFamily("Phi3Config", "Phi3ForCausalLM", {"head_dim": ..., "sliding_window": 37}),
    "phi3, partial": TinyFamily(
        "Phi3Config",
        "Phi3ForCausalLM",
        {"head_dim": ..., "rope_parameters": {"rope_theta": 10000.0, "partial_rotary_factor": 0.75}},
    ),
    "phi3, longrope beyond the original length": TinyFamily(
        "Phi3Config",
        "Phi3ForCausalLM",
        {"head_dim": ..., "original_max_position_embeddings": 128, "rope_parameters": LONGROPE},
    ),
    "phi3, longrope within the original length": TinyFamily(
        "Phi3Config",
        "Phi3ForCausalLM",
        {"head_dim": ..., "original_max_position_embeddings": 512, "rope_parameters": LONGROPE},
    ),
    "qwen2, yarn": TinyFamily("Qwen2Config", "Qwen2ForCausalLM", {"head_dim": ..., "rope_parameters": YARN}),
    "gemma2": TinyFamily(
        "Gemma2Config",
        "Gemma2ForCausalLM",
        {"sliding_window": 37, "query_pre_attn_scalar": 24, "tie_word_embeddings": True},
    ),
    "gemma3": TinyFamily(
        "Gemma3TextConfig",
        "Gemma3ForCausalLM",
        {"sliding_window": 37, "query_pre_attn_scalar": 24, "tie_word_embeddings": True, "num_hidden_layers": 6},
    ),
    "gemma3, scaled full layers": TinyFamily(
        "Gemma3TextConfig",
        "Gemma3ForCausalLM",
        {
            "sliding_window": 37,
            "tie_word_embeddings": True,
            "final_logit_softcapping": 20.0,
            "sliding_window_pattern": 2,
            "rope_parameters": {
                "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
                "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
            },
        },
    ),
    "qwen3moe": TinyFamily(
        "Qwen3MoeConfig",
        "Qwen3MoeForCausalLM",
        {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 48, "mlp_only_layers": [1]},
    ),
    "mixtral": TinyFamily(
        "MixtralConfig", "MixtralForCausalLM", {"num_local_experts": 5, "num_experts_per_tok": 2, "sliding_window": 37}
    ),
    "qwen3moe, normalized": TinyFamily(
        "Qwen3MoeConfig",
        "Qwen3MoeForCausalLM",
        {"num_experts": 6, "num_experts_per_tok": 3, "moe_intermediate_size": 48, "norm_topk_prob": True},
    ),
}


@pytest.fixture(scope="module", params=FAMILIES, ids=lambda name: name.replace(", ", "-").replace(" ", "_"))
def compared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    model = model_from_family(FAMILIES[request.param])
    folder = folder_from_model(model, tmp_path_factory.mktemp("family"))
    ids = np.random.default_rng(1).integers(3, EMITTED, LENGTH)
    engine = engine_from_source(opened(folder), tmp_path_factory.mktemp("engine"))
    return engine, ids, reference_logits(model, ids)


def test_one_pass_over_a_long_text(compared) -> None:
    engine, ids, expected = compared
    rows = [0, 1, 36, 37, 38, 200, 300, LENGTH - 1]
    np.testing.assert_allclose(engine.logits(ids, 0, rows), expected[rows], RTOL, ATOL)


def test_chunks_then_wrong_drafts_then_the_text_again(compared) -> None:
    engine, ids, expected = compared
    for start, end in ((0, 50), (50, 51), (51, 380)):
        np.testing.assert_allclose(
            engine.logits(ids[start:end], start, [end - start - 1])[0], expected[end - 1], RTOL, ATOL
        )
    wrong = np.random.default_rng(2).integers(3, EMITTED, 8)
    engine.logits(np.concatenate([ids[380:381], wrong]), 380, list(range(9)))
    np.testing.assert_allclose(engine.logits(ids[380:386], 380, list(range(6))), expected[380:386], RTOL, ATOL)
    np.testing.assert_allclose(engine.logits(ids[386:387], 386, [0])[0], expected[386], RTOL, ATOL)


@pytest.mark.parametrize("name", ["phi3, partial", "gemma3"])
def test_bfloat16_checkpoints_serve_as_they_are_stored(name: str, tmp_path) -> None:
    model = model_from_family(FAMILIES[name])
    folder = folder_from_model(model.to(torch.bfloat16), tmp_path / "source")
    # saved and loaded: casting a model back would keep its rotary frequencies rounded
    reference = type(model).from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    ids = np.random.default_rng(1).integers(3, EMITTED, 150)
    engine = engine_from_source(opened(folder), tmp_path / "engine")
    rows = [0, 70, 149]
    np.testing.assert_allclose(engine.logits(ids, 0, rows), reference_logits(reference, ids)[rows], RTOL, ATOL)
    files = {path.name for path in (tmp_path / "engine" / "engines").iterdir()}
    assert files == {"model.safetensors", "tables.safetensors", "target.onnx", "target.logits.onnx"}, (
        "weights were copied"
    )
