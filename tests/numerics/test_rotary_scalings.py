"""Cos and sin of every kind of rotary scaling against transformers, at near and far positions (cases B4 and B6)."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, Phi3Config
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
from transformers.models.phi3.modeling_phi3 import Phi3RotaryEmbedding

from specc.catalog.families import FAMILIES
from specc.checkpoint.rope import rope_from_config
from specc.checkpoint.values import Values
from specc.graph.blocks.rotary import rotary_tables

POSITIONS = [0, 1, 100, 8000, 20000]
LENGTH = 20001
HEADS = {"hidden_size": 512, "num_attention_heads": 4}
HEAD_DIM = 128
# Frequencies are the reference's but for one unit in the last place of one or two of them; that turns the angle of
# position 20000 by up to 20000 x 2^-24.
ATOL = 1.2e-3
ORIGINAL = {"original_max_position_embeddings": 8192}
SCALINGS = {
    "default": {"rope_type": "default", "rope_theta": 5e5},
    "linear": {"rope_type": "linear", "rope_theta": 1e4, "factor": 4.0},
    "llama3": {
        "rope_type": "llama3",
        "rope_theta": 5e5,
        "factor": 32.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        **ORIGINAL,
    },
    "yarn": {"rope_type": "yarn", "rope_theta": 1e6, "factor": 4.0, **ORIGINAL},
    "yarn with every option": {
        "rope_type": "yarn",
        "rope_theta": 1e4,
        "factor": 16.0,
        "beta_fast": 16.0,
        "beta_slow": 2.0,
        "mscale": 0.7,
        "mscale_all_dim": 0.5,
        "truncate": False,
        **ORIGINAL,
    },
    "yarn with its factor": {
        "rope_type": "yarn",
        "rope_theta": 1e4,
        "factor": 4.0,
        "attention_factor": 1.3,
        **ORIGINAL,
    },
}


def tables(scaling: dict[str, object], context: int) -> tuple[np.ndarray, np.ndarray]:
    config = Values(Path("config.json"), {"rope_parameters": scaling, "max_position_embeddings": context})
    family = FAMILIES["phi3" if "partial_rotary_factor" in scaling or "long_factor" in scaling else "llama"]
    cos, sin = rotary_tables(rope_from_config(config, family, HEAD_DIM), HEAD_DIM, LENGTH)
    return cos[POSITIONS], sin[POSITIONS]


@pytest.mark.parametrize("name", SCALINGS)
def test_tables_are_those_of_transformers(name: str) -> None:
    factor = SCALINGS[name].get("factor", 4.0)
    context = int(8192 * factor)
    config = LlamaConfig(**HEADS, max_position_embeddings=context, rope_parameters=dict(SCALINGS[name]))
    rotary = LlamaRotaryEmbedding(config)
    cos, sin = (x[0, :, : HEAD_DIM // 2].numpy() for x in rotary(torch.zeros(1), torch.tensor([POSITIONS])))
    ours = tables(SCALINGS[name], context)
    np.testing.assert_allclose(ours[0], cos, rtol=0, atol=ATOL)
    np.testing.assert_allclose(ours[1], sin, rtol=0, atol=ATOL)
    assert np.mean(np.abs(ours[0] - cos) > 1e-6) < 0.02, "most are equal at every position"
    np.testing.assert_allclose(ours[0][:3], cos[:3], rtol=0, atol=2e-6)


@pytest.mark.parametrize(("in_use", "longest"), [("short", 100), ("long", 20000)])
def test_longrope_of_a_part_of_each_head(in_use: str, longest: int) -> None:
    pairs = HEAD_DIM * 3 // 8
    scaling = {
        "rope_type": "longrope",
        "rope_theta": 1e4,
        "partial_rotary_factor": 0.75,
        "short_factor": np.linspace(1, 1.3, pairs).tolist(),
        "long_factor": np.linspace(1.2, 40, pairs).tolist(),
    }
    context = 16384
    config = Phi3Config(
        **HEADS, max_position_embeddings=context, original_max_position_embeddings=4096, rope_parameters=dict(scaling)
    )
    at = [position for position in POSITIONS if position <= longest]
    cos, _ = Phi3RotaryEmbedding(config)(torch.zeros(1), torch.tensor([at]))
    stated = {"max_position_embeddings": context, "original_max_position_embeddings": 4096, "rope_parameters": scaling}
    rope = rope_from_config(Values(Path("config.json"), stated), FAMILIES["phi3"], HEAD_DIM)
    assert rope.longrope is not None
    used = dataclasses.replace(rope, longrope=dataclasses.replace(rope.longrope, in_use=in_use))
    ours, _ = rotary_tables(used, HEAD_DIM, LENGTH)
    assert ours.shape == (LENGTH, pairs)
    np.testing.assert_allclose(ours[at], cos[0, :, :pairs].numpy(), rtol=0, atol=ATOL)
    assert ours[0, 0] == pytest.approx(rope.attention_factor, rel=1e-6)
    assert rope.attention_factor > 1
