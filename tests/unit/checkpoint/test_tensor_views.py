"""Parts of fused tensors are views: the bytes stay where they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from specc.catalog.families import FAMILIES
from specc.checkpoint.tensor_set import HEAD
from specc.checkpoint.tensor_views import split_fused
from specc.errors import SpeccError
from tests.tiny_families import TinyFamily, folder_from_model, model_from_family, opened
from tests.tiny_models import TinyLlama, llama_folder

PHI3 = TinyFamily("Phi3Config", "Phi3ForCausalLM", {"head_dim": ..., "num_hidden_layers": 1})
Q, KV, INNER = 64, 32, 80


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return folder_from_model(model_from_family(PHI3), tmp_path / "m")


def test_parts_are_the_rows_of_the_whole_and_serve_as_external_data(folder: Path) -> None:
    source = opened(folder)
    whole = load_file(folder / "model.safetensors")
    qkv = whole["model.layers.0.self_attn.qkv_proj.weight"]
    gate_up = whole["model.layers.0.mlp.gate_up_proj.weight"]
    parts = {
        "self_attn.q_proj": qkv[:Q],
        "self_attn.k_proj": qkv[Q : Q + KV],
        "self_attn.v_proj": qkv[Q + KV :],
        "mlp.gate_proj": gate_up[:INNER],
        "mlp.up_proj": gate_up[INNER:],
    }
    for name, expected in parts.items():
        header = source.headers[f"model.layers.0.{name}.weight"]
        np.testing.assert_array_equal(source.read_float32(header.name), expected)
        assert header.plain
        raw = header.file.read_bytes()[header.offset : header.offset + header.nbytes]
        assert raw == np.ascontiguousarray(expected).tobytes()
    assert not [name for name in source.headers if "qkv" in name or "gate_up" in name]


def test_a_fused_tensor_of_another_height_is_named(folder: Path) -> None:
    file = folder / "model.safetensors"
    name = "model.layers.0.self_attn.qkv_proj.weight"
    save_file(load_file(file) | {name: np.zeros((Q + KV, 64), dtype=np.float32)}, file)
    with pytest.raises(SpeccError) as caught:
        opened(folder)
    assert caught.value.code == "SPC213"
    assert f"`{name}` has shape [96, 64]" in caught.value.got
    assert "128 rows" in caught.value.got


def test_families_without_fused_tensors_get_their_headers_back(folder: Path) -> None:
    headers = opened(folder).headers
    sizes = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": INNER}
    assert split_fused(headers, FAMILIES["llama"], sizes) == headers


def test_a_head_padded_beyond_the_embedding_ends_with_it(tmp_path: Path) -> None:
    """A8: ids that no embedding has are never computed, so they can be neither picked nor looked up."""
    folder = llama_folder(tmp_path / "m", TinyLlama())
    tensors = load_file(folder / "model.safetensors")
    padded = np.concatenate([tensors[HEAD], np.full((24, 64), 9.0, np.float32)])
    save_file({**tensors, HEAD: padded}, folder / "model.safetensors")
    source = opened(folder)
    assert source.facts.vocab_size == 264
    np.testing.assert_array_equal(source.read_float32(HEAD), tensors[HEAD])
    assert source.headers[HEAD].nbytes == tensors[HEAD].nbytes
    save_file({**tensors, HEAD: tensors[HEAD][:200]}, folder / "model.safetensors")  # rows are missing: refused
    with pytest.raises(SpeccError, match="SPC213"):
        opened(folder)
