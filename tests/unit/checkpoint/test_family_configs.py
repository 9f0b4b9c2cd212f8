"""Configurations of all families: whatever they say, the answer is facts or one coded error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specc.catalog.families import FAMILIES
from specc.checkpoint.facts import ModelFacts
from specc.checkpoint.hf_config import stated_facts
from specc.checkpoint.layers import PERIOD_KEYS
from specc.checkpoint.scales import MULTIPLIERS, SCALAR, SOFT_CAPS
from specc.checkpoint.source import TensorHeader
from specc.checkpoint.values import Values
from specc.errors import SpeccError
from specc.graph.blocks.rotary import rotary_tables
from tests.tiny_families import TinyFamily, folder_from_model, model_from_family, opened

SMALL: dict[str, Any] = {
    "vocab_size": 32,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "max_position_embeddings": 64,
    "num_experts": 2,
    "num_experts_per_tok": 1,
    "moe_intermediate_size": 8,
}
ARCHITECTURES = [row.architectures[0] for row in FAMILIES.values()]
TENSORS = {"x": TensorHeader("x", (1,), "i32", Path("m"), 0, 4, plain=False)}
"""Any tensor: only configurations are tested."""


def facts(**config: Any) -> ModelFacts:
    return stated_facts(Values(Path("config.json"), config), TENSORS, None)


NUMBERS = st.integers(-2, 300) | st.floats() | st.sampled_from([1e-300, 1e300, 0.5, 0.25])
LISTS = st.lists(NUMBERS | st.sampled_from(["full_attention", "sliding_attention", "x"]), max_size=5)
VALUES = st.none() | st.booleans() | NUMBERS | LISTS | st.sampled_from(["silu", "gelu", "gelu_pytorch_tanh"])
KEYS = (
    *SMALL, *MULTIPLIERS, *SOFT_CAPS, SCALAR, *PERIOD_KEYS, "head_dim", "hidden_act", "hidden_activation",
    "rms_norm_eps", "sliding_window", "use_sliding_window", "max_window_layers", "layer_types", "no_rope_layers",
    "no_rope_layer_interval", "partial_rotary_factor", "rope_theta", "rope_local_base_freq", "mlp_only_layers",
    "decoder_sparse_step", "norm_topk_prob", "original_max_position_embeddings", "num_local_experts",
)  # fmt: skip
ROPE_KEYS = (
    "rope_theta", "factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate", "attention_factor",
    "short_factor", "long_factor", "original_max_position_embeddings", "low_freq_factor", "high_freq_factor",
    "partial_rotary_factor", "full_attention", "sliding_attention",
)  # fmt: skip
ROPES = st.dictionaries(st.sampled_from(ROPE_KEYS), VALUES, max_size=4)
KINDS = st.sampled_from(["default", "linear", "llama3", "yarn", "longrope", "su", "dynamic"])


@given(
    st.sampled_from(ARCHITECTURES),
    st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=3),
    st.none() | st.tuples(st.sampled_from(["rope_scaling", "rope_parameters"]), KINDS, ROPES),
)
@settings(max_examples=250, deadline=None)
def test_any_configuration_is_facts_or_one_error(architecture: str, changes: dict[str, Any], rope: Any) -> None:
    config = SMALL | {"architectures": [architecture]} | changes
    if rope is not None:
        config[rope[0]] = {"rope_type": rope[1], **rope[2]}
    try:
        found = facts(**config)
    except SpeccError as error:
        if error.code not in ("SPC210", "SPC212"):
            raise
        return
    assert len(found.layers) in (0, found.num_hidden_layers)
    for index in range(found.num_hidden_layers):
        assert 0 <= found.layer(index).window < max(found.max_position_embeddings, 1)
        assert (found.layer(index).rope == "local") <= (found.local_rope is not None)
        assert found.layer(index).experts <= (found.experts is not None)
    if found.head_dim <= 64:
        assert all(table.shape[0] == 3 for table in rotary_tables(found.rope, found.head_dim, 3))


def test_published_gemma3_in_the_older_layout() -> None:
    found = facts(
        **SMALL
        | {
            "architectures": ["Gemma3ForCausalLM"],
            "head_dim": 8,
            "num_hidden_layers": 12,
            "hidden_activation": "gelu_pytorch_tanh",
            "rope_theta": 1000000,
            "rope_local_base_freq": 10000,
            "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
            "sliding_window": 16,
            "sliding_window_pattern": 6,
            "attn_logit_softcapping": None,
            "final_logit_softcapping": None,
            "query_pre_attn_scalar": 168,
        }
    )
    assert (found.rope.theta, found.rope.scaling, found.rope.factor) == (1e6, "linear", 8.0)
    assert found.local_rope is not None
    assert (found.local_rope.theta, found.local_rope.scaling) == (1e4, "none")
    assert [layer.rope for layer in found.layers] == (["local"] * 5 + ["main"]) * 2
    assert found.scales.attention_multiplier == pytest.approx(168**-0.5, rel=1e-12)


def test_published_phi4_mini() -> None:
    found = facts(
        **SMALL
        | {
            "architectures": ["Phi3ForCausalLM"],
            "hidden_size": 256,
            "max_position_embeddings": 131072,
            "original_max_position_embeddings": 4096,
            "partial_rotary_factor": 0.75,
            "rope_theta": 10000.0,
            "rope_scaling": {"type": "longrope", "short_factor": [1.0] * 48, "long_factor": [2] * 48},
            "sliding_window": 262144,
        }
    )
    assert (found.rope.rotary_dim, found.rope.original_max_position_embeddings) == (96, 4096)
    assert found.rope.attention_factor == pytest.approx(1.1902380714238083, rel=1e-12)
    assert found.layers == ()


def test_head_size_of_null_and_of_a_family_with_a_default(tmp_path: Path) -> None:
    assert facts(**SMALL | {"architectures": ["MistralForCausalLM"], "head_dim": None}).head_dim == 8
    assert facts(**SMALL | {"architectures": ["Qwen3ForCausalLM"]}).head_dim == 128
    assert facts(**SMALL | {"architectures": ["Qwen3ForCausalLM"], "head_dim": 10}).head_dim == 10


def test_norms_of_queries_and_keys_are_tensors_that_must_be_there(tmp_path: Path) -> None:
    """Case B22: a checkpoint with them is not taken for a family without, nor the other way round."""
    family = TinyFamily("Qwen3Config", "Qwen3ForCausalLM", {"num_hidden_layers": 1})
    folder = folder_from_model(model_from_family(family), tmp_path / "m")
    assert opened(folder).facts.norms.query_key == "head"
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"architectures": ["Qwen2ForCausalLM"]}))
    with pytest.raises(SpeccError, match=r"self_attn\.[kq]_norm\.weight") as caught:
        opened(folder)
    assert caught.value.code == "SPC213"


def test_stop_ids_without_a_generation_configuration(tmp_path: Path) -> None:
    """Cases B10 and B13: a list of end ids, generation_config.json absent or naming another."""
    family = TinyFamily("Qwen2Config", "Qwen2ForCausalLM", {"head_dim": ..., "eos_token_id": [7, 9]})
    folder = folder_from_model(model_from_family(family), tmp_path / "m")
    (folder / "generation_config.json").unlink(missing_ok=True)
    assert opened(folder).tokens.stop_ids == (7, 9)
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": 5}))
    assert opened(folder).tokens.stop_ids == (5, 7, 9)
