"""Model facts from config.json and the tensors (cases B1, B3, B8, B9), and a fuzz test of the whole folder."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from specc.checkpoint.facts import ModelFacts
from specc.checkpoint.open import source_from_reference
from specc.errors import SpeccError
from tests.tiny_models import TinyLlama, config_from_sizes, llama_folder


def facts(folder: Path) -> ModelFacts:
    return source_from_reference(
        str(folder), base=folder, revision=None, tokenizer=None, chat_template=None, offline=True
    ).facts


def change(folder: Path, **keys: object) -> Path:
    """Set keys of config.json; `...` removes one."""
    config = json.loads((folder / "config.json").read_text()) | keys
    (folder / "config.json").write_text(json.dumps({k: v for k, v in config.items() if v is not ...}))
    return folder


def change_tensors(folder: Path, **tensors: np.ndarray | None) -> Path:
    whole = load_file(folder / "model.safetensors") | tensors
    save_file({k: v for k, v in whole.items() if v is not None}, folder / "model.safetensors")
    return folder


def refused(folder: Path) -> SpeccError:
    with pytest.raises(SpeccError) as caught:
        facts(folder)
    return caught.value


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return llama_folder(tmp_path / "m", TinyLlama(num_hidden_layers=1))


def test_head_dim_is_used_where_it_is_stated(tmp_path: Path) -> None:
    sizes = TinyLlama(num_hidden_layers=1, head_dim=8)
    assert facts(llama_folder(tmp_path / "m", sizes)).head_dim == 8
    assert facts(change(llama_folder(tmp_path / "n"), head_dim=...)).head_dim == 16


@pytest.mark.parametrize("flag", [None, ..., False])
def test_biases_are_those_of_the_tensors(tmp_path: Path, flag: object) -> None:
    folder = llama_folder(tmp_path / "m", TinyLlama(num_hidden_layers=2, attention_bias=True))
    found = facts(change(folder, attention_bias=flag))
    assert (found.attention_bias, found.attention_output_bias, found.mlp_bias) == (True, True, False)
    change_tensors(folder, **{f"model.layers.{i}.self_attn.o_proj.bias": None for i in range(2)})
    found = facts(folder)
    assert (found.attention_bias, found.attention_output_bias) == (True, False)


def test_bias_of_some_layers_only(tmp_path: Path) -> None:
    folder = llama_folder(tmp_path / "m", TinyLlama(attention_bias=True))
    error = refused(change_tensors(folder, **{"model.layers.1.self_attn.k_proj.bias": None}))
    assert error.code == "SPC213"
    assert "model.layers.1.self_attn.k_proj.bias" in error.got


def test_the_head_is_tied_where_its_tensor_is_absent(tmp_path: Path) -> None:
    tied = llama_folder(tmp_path / "m", TinyLlama(tie_word_embeddings=True))
    assert facts(tied).tie_word_embeddings
    assert facts(change(tied, tie_word_embeddings=...)).tie_word_embeddings
    error = refused(change(tied, tie_word_embeddings=False))
    assert error.code == "SPC213"
    assert "lm_head.weight" in error.got
    own = llama_folder(tmp_path / "n")
    assert not facts(change(own, tie_word_embeddings=True)).tie_word_embeddings


def test_defaults_of_older_configurations(folder: Path) -> None:
    expected = facts(folder)
    found = facts(change(folder, rope_theta=..., rope_scaling=..., hidden_act=..., attention_bias=..., mlp_bias=...))
    assert found == expected
    assert facts(change(folder, rms_norm_eps=...)).rms_norm_eps == 1e-6


@pytest.mark.parametrize("name", ["model.layers.0.self_attn.q_norm.weight", "model.layers.7.mlp.up_proj.weight", "x"])
def test_a_tensor_that_no_graph_uses(folder: Path, name: str) -> None:
    error = refused(change_tensors(folder, **{name: np.zeros(4, dtype=np.float32)}))
    assert error.code == "SPC213"
    assert name in error.got


def test_rotary_buffers_of_older_checkpoints_have_no_effect(folder: Path) -> None:
    expected = facts(folder)
    buffer = {"model.layers.0.self_attn.rotary_emb.inv_freq": np.zeros(8, dtype=np.float32)}
    assert facts(change_tensors(folder, **buffer)) == expected


def test_packed_tensors_need_a_configuration_that_explains_them(folder: Path) -> None:
    name = "model.layers.0.mlp.up_proj.weight"
    with pytest.raises(SpeccError, match="SPC222"):
        facts(change_tensors(folder, **{name: np.zeros((96, 64), dtype=np.int8)}))
    packed = {name: np.zeros((96, 8), dtype=np.int32), f"{name}_scale": np.zeros((96, 1), dtype=np.float32)}
    with pytest.raises(SpeccError, match="SPC213"):
        facts(change_tensors(folder, **packed))


@pytest.mark.parametrize(
    ("key", "value", "code"),
    [
        ("architectures", ["MambaForCausalLM"], "SPC211"),
        ("architectures", [], "SPC210"),
        ("architectures", "LlamaForCausalLM", "SPC210"),
        ("hidden_size", 65, "SPC213"),
        ("hidden_size", "64", "SPC210"),
        ("hidden_size", True, "SPC210"),
        ("hidden_size", 64.0, "SPC210"),
        ("num_hidden_layers", 10**6, "SPC210"),
        ("num_hidden_layers", 9999, "SPC213"),
        ("num_key_value_heads", 3, "SPC210"),
        ("num_attention_heads", 0, "SPC210"),
        ("head_dim", 15, "SPC210"),
        ("vocab_size", 300, "SPC213"),
        ("vocab_size", ..., "SPC210"),
        ("hidden_act", "gelu", "SPC212"),
        ("sliding_window", 128, "SPC212"),
        ("layer_types", ["full_attention", "sliding_attention"], "SPC212"),
        ("rms_norm_eps", 0, "SPC210"),
        ("eos_token_id", "2", "SPC210"),
        ("eos_token_id", 264, "SPC243"),
    ],
)
def test_configurations_that_cannot_be_built(folder: Path, key: str, value: object, code: str) -> None:
    error = refused(change(folder, **{key: value}))
    assert error.code == code
    if code != "SPC213":
        assert error.place.endswith(key)


@pytest.mark.parametrize("keys", [{"sliding_window": 512}, {"sliding_window": 4, "use_sliding_window": False}])
def test_inactive_sliding_windows(folder: Path, keys: dict[str, object]) -> None:
    assert facts(change(folder, **keys)).hidden_size == 64


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just("\ud800"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=4,
)
FILES = (
    "config.json",
    "generation_config.json",
    "tokenizer_config.json",
    "tokenizer.json",
    "model.safetensors.index.json",
)
KEYS = (
    *config_from_sizes(TinyLlama()), "rope_parameters", "sliding_window", "layer_types", "do_sample", "top_k",
    "weight_map", "chat_template", "bos_token", "eos_token", "added_tokens_decoder", "add_bos_token", "model",
    "added_tokens", "version",
)  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return llama_folder(tmp_path_factory.mktemp("fuzz"), TinyLlama(num_hidden_layers=1, shards=2))


@given(st.sampled_from(FILES), st.dictionaries(st.sampled_from(KEYS), JSON, max_size=2) | st.binary(max_size=30))
@settings(max_examples=200)
def test_a_damaged_folder_is_one_error_at_most(whole: Path, name: str, damage: object) -> None:
    with tempfile.TemporaryDirectory() as place:
        shutil.copytree(whole, place, dirs_exist_ok=True)
        changed = (
            damage
            if isinstance(damage, bytes)
            else json.dumps(json.loads((whole / name).read_text()) | damage).encode()
        )
        (Path(place) / name).write_bytes(changed)
        start = time.process_time()
        try:
            facts(Path(place))
        except SpeccError as error:
            str(error).encode()
        assert time.process_time() - start < 2.0
