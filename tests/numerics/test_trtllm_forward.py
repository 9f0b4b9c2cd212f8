"""Rank files computed in NumPy, their parts summed, against transformers in float32 on tiny random models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from safetensors.numpy import save_file

from specc.plan.trtllm_stored import stored_from_source
from tests.quantized_folders import LAYOUTS, pack_folder
from tests.rank_files import model_plan, write_ranks
from tests.rank_forward import logits_from_ranks
from tests.tiny_families import TinyFamily, folder_from_model, model_from_family, opened, reference_logits

TEXT = np.random.default_rng(7).integers(3, 256, 24)
FAMILIES = {
    "llama": TinyFamily("LlamaConfig", "LlamaForCausalLM", {"vocab_size": 263, "num_attention_heads": 8}),
    "mistral": TinyFamily("MistralConfig", "MistralForCausalLM", {"sliding_window": None}),
    "qwen2": TinyFamily("Qwen2Config", "Qwen2ForCausalLM", {"head_dim": ...}),
    "qwen3": TinyFamily("Qwen3Config", "Qwen3ForCausalLM", {"tie_word_embeddings": True}),
    "gemma2": TinyFamily("Gemma2Config", "Gemma2ForCausalLM", {"tie_word_embeddings": True}),
    "gemma3": TinyFamily("Gemma3TextConfig", "Gemma3ForCausalLM", {"sliding_window": 8, "tie_word_embeddings": True}),
    "mixtral": TinyFamily("MixtralConfig", "MixtralForCausalLM", {"num_local_experts": 4, "num_experts_per_tok": 2}),
}
TOLERANCE = 2e-4
"""Both sides compute in float32 from the same bfloat16 weights; sums of up to 264 products differ in their order."""


@pytest.mark.parametrize(("tp", "pp"), [(1, 1), (4, 2)])
@pytest.mark.parametrize("name", FAMILIES)
def test_ranks_together_are_the_model(tmp_path: Path, name: str, tp: int, pp: int) -> None:
    model = model_from_family(FAMILIES[name])
    offset = 1.0 if name.startswith("gemma") else 0.0
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            shift = offset if "norm" in key else 0.0  # so that 1 + w is a bfloat16 too
            parameter.copy_((parameter + shift).bfloat16().float() - shift)
    source = opened(folder_from_model(model, tmp_path / "m"))
    folder = write_ranks(source, model_plan(tp, pp), tmp_path / "c")
    found = logits_from_ranks(folder, TEXT)
    wanted = reference_logits(model, TEXT)
    assert np.ptp(wanted) > 4
    np.testing.assert_allclose(found[:, : wanted.shape[1]], wanted, rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.parametrize("layout", ["awq", "gptq", "modelopt_int4", "modelopt_int4_factors"])
@pytest.mark.parametrize("tp", [1, 2])
def test_matrices_of_4_bits_are_what_their_tool_means(tmp_path: Path, layout: str, tp: int) -> None:
    sizes = FAMILIES["llama"].keys | {"intermediate_size": 128}
    model = model_from_family(TinyFamily("LlamaConfig", "LlamaForCausalLM", sizes))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.half().float())
    folder = folder_from_model(model, tmp_path / "m")
    meant = pack_folder(folder, LAYOUTS[layout])
    source = opened(folder)
    plan = model_plan(tp, dtype="f16", weights="stored", scheme="w4a16", int4=stored_from_source(source).int4)
    found = logits_from_ranks(write_ranks(source, plan, tmp_path / "c"), TEXT)
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            weight = meant[key]
            if layout == "awq" and key in source.quantized_formats:
                stored = source.read_quantized(key)
                zeros = ((8 - stored.zero_points.astype(np.float32)) * stored.scales).astype(np.float16)  # of an engine
                codes = stored.codes.astype(np.float32) - 8
                weight = codes * stored.scales.repeat(32, axis=1) + zeros.astype(np.float32).repeat(32, axis=1)
            parameter.copy_(torch.from_numpy(weight))
    wanted = reference_logits(model, TEXT)
    np.testing.assert_allclose(found[:, : wanted.shape[1]], wanted, rtol=TOLERANCE, atol=TOLERANCE)


def test_experts_of_4_bits_are_what_their_tool_means(tmp_path: Path) -> None:
    sizes = FAMILIES["mixtral"].keys | {"intermediate_size": 128}
    model = model_from_family(TinyFamily("MixtralConfig", "MixtralForCausalLM", sizes))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.half().float())
    folder, plain = (folder_from_model(model, tmp_path / name) for name in ("m", "plain"))
    meant = pack_folder(folder, LAYOUTS["modelopt_int4_factors"])
    source = opened(folder)
    plan = model_plan(2, dtype="f16", weights="stored", scheme="w4a16", int4=stored_from_source(source).int4)
    found = logits_from_ranks(write_ranks(source, plan, tmp_path / "c"), TEXT)
    save_file(meant, plain / "model.safetensors", metadata={"format": "pt"})
    wanted = reference_logits(transformers.MixtralForCausalLM.from_pretrained(plain).float().eval(), TEXT)
    np.testing.assert_allclose(found[:, : wanted.shape[1]], wanted, rtol=TOLERANCE, atol=TOLERANCE)


def test_fp8_rows_are_torchs(tmp_path: Path) -> None:
    """The same model with every matrix of a layer rounded by torch's own cast to float8_e4m3fn under row scales."""
    model = model_from_family(FAMILIES["llama"])
    source = opened(folder_from_model(model, tmp_path / "m"))
    plan = model_plan(1, dtype="bf16", weights="fp8 rows", scheme="fp8")
    found = logits_from_ranks(write_ranks(source, plan, tmp_path / "c"), TEXT)
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if "proj" in key:
                scale = parameter.abs().amax(dim=1, keepdim=True) / 448
                parameter.copy_((parameter / scale).clamp(-448, 448).to(torch.float8_e4m3fn).float() * scale)
            else:
                parameter.copy_(parameter.bfloat16().float())
    wanted = reference_logits(model, TEXT)
    np.testing.assert_allclose(found[:, : wanted.shape[1]], wanted, rtol=TOLERANCE, atol=TOLERANCE)
