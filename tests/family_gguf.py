"""A folder's weights as a GGUF file, in the form that llama.cpp's conversion gives each family."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import numpy.typing as npt
from safetensors.numpy import load_file

from tests.tiny_gguf import interleaved, write_vocabulary
from tests.tiny_models import TinyLlama

ARCHITECTURES = {
    "MistralForCausalLM": gguf.MODEL_ARCH.LLAMA,
    "Qwen2ForCausalLM": gguf.MODEL_ARCH.QWEN2,
    "Qwen3ForCausalLM": gguf.MODEL_ARCH.QWEN3,
    "SmolLM3ForCausalLM": gguf.MODEL_ARCH.SMOLLM3,
    "GraniteForCausalLM": gguf.MODEL_ARCH.GRANITE,
    "Olmo2ForCausalLM": gguf.MODEL_ARCH.OLMO2,
    "Phi3ForCausalLM": gguf.MODEL_ARCH.PHI3,
    "Gemma2ForCausalLM": gguf.MODEL_ARCH.GEMMA2,
    "Gemma3ForCausalLM": gguf.MODEL_ARCH.GEMMA3,
    "Qwen3MoeForCausalLM": gguf.MODEL_ARCH.QWEN3MOE,
}
PERMUTED = ("MistralForCausalLM", "SmolLM3ForCausalLM", "GraniteForCausalLM")
Float32Array = npt.NDArray[np.float32]


def gguf_from_folder(folder: Path, path: Path, encoding: str = "f32") -> Path:
    """Write the model of a folder as a GGUF file and return its path.

    Args:
        folder: with config.json and model.safetensors.
        path: of the file.
        encoding: of matrices whose rows are whole blocks; all else stays f32.
    """
    config = json.loads((folder / "config.json").read_text())
    architecture = config["architectures"][0]
    kind = ARCHITECTURES[architecture]
    writer = gguf.GGUFWriter(path, gguf.MODEL_ARCH_NAMES[kind])
    _write_metadata(writer, config)
    write_vocabulary(writer, TinyLlama(vocab_size=config["vocab_size"]))
    names = gguf.get_tensor_name_map(kind, config["num_hidden_layers"])
    block = gguf.GGMLQuantizationType[encoding.upper()]
    for name, tensor in _converted(load_file(folder / "model.safetensors"), config, architecture).items():
        stem, _, suffix = name.rpartition(".")
        if tensor.ndim == 1 or "gate.weight" in name or tensor.shape[-1] % gguf.GGML_QUANT_SIZES[block][0]:
            stored, of = tensor, gguf.GGMLQuantizationType.F32
        else:
            stored, of = gguf.quants.quantize(tensor, block), block
        writer.add_tensor(f"{names.get_name(stem)}.{suffix}", stored, raw_dtype=of)
    rope = config["rope_parameters"]
    if rope.get("rope_type") == "longrope":
        writer.add_tensor("rope_factors_long.weight", np.array(rope["long_factor"], dtype=np.float32))
        writer.add_tensor("rope_factors_short.weight", np.array(rope["short_factor"], dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _converted(tensors: dict[str, Float32Array], config: dict[str, Any], architecture: str) -> dict[str, Float32Array]:
    heads = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}
    converted: dict[str, Float32Array] = {}
    experts: dict[str, list[Float32Array]] = {}
    for name, tensor in sorted(tensors.items(), key=lambda item: _numbers(item[0])):
        last = name.split(".")[-2]
        if ".experts." in name:
            layer, index = name.split(".")[2], int(name.split(".")[5])
            stack = experts.setdefault(f"model.layers.{layer}.mlp.experts.{last}.weight", [])
            assert index == len(stack)
            stack.append(tensor)
        elif architecture in PERMUTED and last in heads:
            converted[name] = interleaved(tensor, heads[last])
        elif architecture.startswith("Gemma") and name.endswith("norm.weight"):
            converted[name] = tensor + np.float32(1)
        else:
            converted[name] = tensor
    return converted | {name: np.stack(stack) for name, stack in experts.items()}


def _numbers(name: str) -> list[int]:
    """Return a key that sorts layers and experts by number."""
    return [int(part) for part in name.split(".") if part.isdigit()]


def _write_metadata(writer: gguf.GGUFWriter, config: dict[str, Any]) -> None:
    heads = config["num_attention_heads"]
    head_dim = config.get("head_dim") or config["hidden_size"] // heads
    rope = config["rope_parameters"]
    full = rope.get("full_attention", rope)
    writer.add_vocab_size(config["vocab_size"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(full["rope_theta"])
    writer.add_rope_dimension_count(int(head_dim * full.get("partial_rotary_factor", 1.0)))
    if full["rope_type"] in ("linear", "yarn"):
        writer.add_rope_scaling_type(gguf.RopeScalingType(full["rope_type"]))
        writer.add_rope_scaling_factor(full["factor"])
    if "original_max_position_embeddings" in full:
        writer.add_rope_scaling_orig_ctx_len(full["original_max_position_embeddings"])
    if config["architectures"][0].startswith(("Gemma", "Phi3")):
        writer.add_sliding_window(config["sliding_window"] or 0)
    for key, add in (
        ("attn_logit_softcapping", writer.add_attn_logit_softcapping),
        ("final_logit_softcapping", writer.add_final_logit_softcapping),
        ("attention_multiplier", writer.add_attention_scale),
        ("embedding_multiplier", writer.add_embedding_scale),
        ("residual_multiplier", writer.add_residual_scale),
        ("logits_scaling", writer.add_logit_scale),
        ("num_experts_per_tok", writer.add_expert_used_count),
        ("num_local_experts", writer.add_expert_count),
        ("moe_intermediate_size", writer.add_expert_feed_forward_length),
    ):
        if config.get(key) is not None:
            add(config[key])
