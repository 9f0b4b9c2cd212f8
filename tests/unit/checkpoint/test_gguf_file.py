"""One model as a folder and as a GGUF file: equal facts, equal tensors, equal tokens."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from specc.checkpoint.gguf_file import unpermuted
from specc.checkpoint.open import source_from_reference
from tests.tiny_gguf import interleaved, llama_gguf
from tests.tiny_models import TinyLlama, llama_folder

SIZES = [
    TinyLlama(),
    TinyLlama(tie_word_embeddings=True, seed=3),
    TinyLlama(attention_bias=True, head_dim=32, num_key_value_heads=4, rope_theta=500000.0),
]


def opened(path: Path):
    return source_from_reference(
        str(path), base=path.parent, revision=None, tokenizer=None, chat_template=None, offline=True
    )


@pytest.mark.parametrize("sizes", SIZES)
def test_folder_and_gguf_are_one_model(tmp_path: Path, sizes: TinyLlama) -> None:
    folder, file = opened(llama_folder(tmp_path / "hf", sizes)), opened(llama_gguf(tmp_path / "m.gguf", sizes))
    assert dataclasses.replace(file.facts, architecture="LlamaForCausalLM") == folder.facts
    assert file.facts.emitted_vocab_size == 259
    assert file.tokens == folder.tokens
    assert set(file.headers) == set(folder.headers)
    for name, header in file.headers.items():
        assert header.shape == folder.headers[name].shape
        np.testing.assert_array_equal(file.read_float32(name), folder.read_float32(name))
    text = "Grüße <|end|> 123\n\t你好 🙂"
    assert file.tokenizer().encode(text).ids == folder.tokenizer().encode(text).ids


def test_plain_means_that_the_bytes_are_the_tensor(tmp_path: Path) -> None:
    source = opened(llama_gguf(tmp_path / "m.gguf"))
    for name, header in source.headers.items():
        raw = header.file.read_bytes()[header.offset : header.offset + header.nbytes]
        same = np.array_equal(np.frombuffer(raw, "<f4").reshape(header.shape), source.read_float32(name))
        assert header.plain == same
        assert header.plain != (".q_proj." in name or ".k_proj." in name)


def test_rows_of_a_head_are_unpermuted() -> None:
    rows = np.arange(2 * 8 * 3, dtype=np.float32).reshape(16, 3)
    np.testing.assert_array_equal(unpermuted(interleaved(rows, heads=2), head_dim=8), rows)
    # the first head's rows as the conversion stores them: 0 4 1 5 2 6 3 7
    np.testing.assert_array_equal(interleaved(rows, heads=2)[:4, 0], rows[[0, 4, 1, 5], 0])


@pytest.mark.parametrize("encoding", ["f16", "bf16", "q8_0", "q4_1"])
def test_stored_dtype_is_that_of_the_matrices(tmp_path: Path, encoding: str) -> None:
    source = opened(llama_gguf(tmp_path / "m.gguf", encoding=encoding))
    assert source.facts.stored_dtype == encoding
    assert source.headers["model.layers.1.mlp.up_proj.weight"].encoding == encoding


def test_tokenizer_of_another_checkpoint(tmp_path: Path) -> None:
    file = llama_gguf(tmp_path / "m.gguf")
    other = llama_folder(tmp_path / "hf")
    source = source_from_reference(
        "m.gguf", base=tmp_path, revision=None, tokenizer="hf", chat_template=None, offline=True
    )
    assert source.files[0] == file
    assert other / "tokenizer.json" in source.files
    back = source_from_reference(
        "hf", base=tmp_path, revision=None, tokenizer="m.gguf", chat_template=None, offline=True
    )
    assert back.tokenizer().encode("abc").ids == source.tokenizer().encode("abc").ids
