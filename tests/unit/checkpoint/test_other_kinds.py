"""Kinds of models that specc does not build are named before a tensor's header is looked at (case B24 and its like)."""

from __future__ import annotations

import json
from pathlib import Path

import gguf
import pytest

from specc.catalog.families import FAMILIES
from specc.checkpoint.gguf_facts import READ_KEYS
from specc.checkpoint.gguf_features import keys_from_family
from specc.checkpoint.other_kinds import OTHER_KINDS, refuse_other_kinds
from specc.checkpoint.values import Values
from specc.errors import SpeccError
from tests.tiny_families import opened

PUBLISHED = {
    "DeepseekV3ForCausalLM": ({"kv_lora_rank": 512, "q_lora_rank": None}, "kv_lora_rank", "latent attention"),
    "MiniCPM3ForCausalLM": ({"q_lora_rank": 768}, "q_lora_rank", "latent attention"),
    "T5ForConditionalGeneration": ({"is_encoder_decoder": True}, "is_encoder_decoder", "encoder-decoder"),
    "Gemma3ForConditionalGeneration": ({"text_config": {"hidden_size": 8}}, "text_config", "multimodal"),
    "Qwen2VLForConditionalGeneration": ({"vision_config": {"depth": 2}}, "vision_config", "multimodal"),
    "FalconH1ForCausalLM": ({"mamba_d_state": 16}, "mamba_d_state", "recurrent"),
    "Qwen3NextForCausalLM": ({"linear_num_key_heads": 16}, "linear_num_key_heads", "recurrent"),
    "NemotronHForCausalLM": ({"hybrid_override_pattern": "M-M*"}, "hybrid_override_pattern", "recurrent"),
    "Lfm2ForCausalLM": ({"conv_L_cache": 3}, "conv_L_cache", "recurrent"),
    "MiniMaxForCausalLM": ({"layer_types": ["linear_attention", "full_attention"]}, "layer_types", "recurrent"),
    "RwkvForCausalLM": ({"attention_hidden_size": 64, "rescale_every": 6}, "rescale_every", "recurrent"),
    "Phi4MMForCausalLM": ({"img_processor": None, "audio_processor": {"name": "cascades"}}, "audio_", "multimodal"),
}
METADATA = {
    "deepseek2": ("attention.kv_lora_rank", 512, "latent attention"),
    "qwen35": ("ssm.conv_kernel", 4, "recurrent"),
    "rwkv7": ("wkv.head_size", 64, "recurrent"),
    "lfm2": ("shortconv.l_cache", 3, "recurrent"),
    "kimi-linear": ("kda.head_dim", 128, "recurrent"),
    "t5": ("decoder_start_token_id", 1, "encoder-decoder"),
    "clip": ("has_vision_encoder", True, "multimodal"),
    "qwen3vl": ("n_deepstack_layers", 3, "multimodal"),
}


@pytest.mark.parametrize("architecture", PUBLISHED)
def test_a_model_of_another_kind_is_named(architecture: str, tmp_path: Path) -> None:
    keys, key, kind = PUBLISHED[architecture]
    (tmp_path / "config.json").write_text(json.dumps({"architectures": [architecture], **keys}))
    (tmp_path / "model.safetensors").write_bytes(b"never read")
    with pytest.raises(SpeccError) as caught:
        opened(tmp_path)
    assert caught.value.code == "SPC212"
    assert caught.value.place.startswith(f"{tmp_path / 'config.json'} {key}")
    assert kind in caught.value.got
    assert caught.value.why
    assert "another model" in caught.value.fix


@pytest.mark.parametrize("architecture", METADATA)
def test_a_gguf_file_of_another_kind_is_named(architecture: str, tmp_path: Path) -> None:
    key, value, kind = METADATA[architecture]
    writer = gguf.GGUFWriter(tmp_path / "model.gguf", architecture)
    add = writer.add_bool if isinstance(value, bool) else writer.add_uint32
    add(f"{architecture}.{key}", value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    with pytest.raises(SpeccError) as caught:
        opened(tmp_path / "model.gguf")
    assert caught.value.code == "SPC212"
    assert caught.value.place == f"{tmp_path / 'model.gguf'} {architecture}.{key}"
    assert kind in caught.value.got


def test_keys_without_a_value_mean_nothing() -> None:
    neutral = {key: value for kind in OTHER_KINDS for key, value in zip(kind.keys, (None, False, 0, {}), strict=False)}
    refuse_other_kinds(Values(Path("config.json"), neutral))


def test_no_key_of_another_kind_is_one_that_a_family_obeys() -> None:
    assert all(not set(kind.keys) & set(row.soft_caps) for kind in OTHER_KINDS for row in FAMILIES.values())
    assert len({key for kind in OTHER_KINDS for key in kind.keys}) == sum(len(kind.keys) for kind in OTHER_KINDS)
    read = READ_KEYS | frozenset().union(*map(keys_from_family, FAMILIES.values()))
    assert all(not set(kind.metadata) & read for kind in OTHER_KINDS)
