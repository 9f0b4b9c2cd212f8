"""A folder as transformers 5 saves it: its layout of config.json, its shards, its tensors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from specc.checkpoint.facts import RopeFacts
from specc.checkpoint.open import source_from_reference

LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 32.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_what_transformers_saves(tmp_path: Path, dtype: torch.dtype) -> None:
    config = LlamaConfig(
        vocab_size=50,
        hidden_size=24,
        intermediate_size=40,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        max_position_embeddings=256,
        rms_norm_eps=1e-5,
        rope_parameters=LLAMA3,
        attention_bias=True,
        tie_word_embeddings=dtype is not torch.float32,
        bos_token_id=1,
        eos_token_id=[2, 3],
    )
    torch.manual_seed(0)
    model = LlamaForCausalLM(config).to(dtype)
    model.save_pretrained(tmp_path, max_shard_size="8KB")
    source = source_from_reference(
        str(tmp_path), base=tmp_path, revision=None, tokenizer=None, chat_template=None, offline=True
    )
    facts = source.facts
    assert len({header.file for header in source.headers.values()}) > 1
    assert facts.rope == RopeFacts(500000.0, "llama3", 32.0, 1.0, 4.0, 64)
    assert (facts.head_dim, facts.attention_bias, facts.attention_output_bias, facts.mlp_bias) == (8, True, True, False)
    assert facts.tie_word_embeddings == (dtype is not torch.float32)
    assert (facts.rms_norm_eps, facts.emitted_vocab_size) == (1e-5, 50)
    assert source.tokens.stop_ids == (2, 3)
    state = model.state_dict()
    for name in source.headers:
        np.testing.assert_array_equal(source.read_float32(name), state[name].float().numpy())
    assert set(state) - set(source.headers) <= {"lm_head.weight"}
