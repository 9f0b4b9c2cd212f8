"""Sharded folders follow their index; index and shards that disagree are refused (cases B17, B19)."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from specc.checkpoint.shards import INDEX_FILE, headers_from_folder
from specc.errors import SpeccError
from tests.tiny_models import TinyLlama, llama_folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return llama_folder(tmp_path / "m", TinyLlama(shards=3, num_hidden_layers=1))


def change_index(folder: Path, **places: str) -> None:
    index = json.loads((folder / INDEX_FILE).read_text())
    index["weight_map"] |= places
    (folder / INDEX_FILE).write_text(json.dumps(index))


def refused(folder: Path) -> SpeccError:
    with pytest.raises(SpeccError) as caught:
        headers_from_folder(folder)
    return caught.value


def test_the_index_is_followed_not_the_name_pattern(folder: Path) -> None:
    expected = headers_from_folder(folder)
    (folder / "model-00002-of-00003.safetensors").rename(folder / "odd name.bin")
    text = (folder / INDEX_FILE).read_text()
    (folder / INDEX_FILE).write_text(text.replace("model-00002-of-00003.safetensors", "odd name.bin"))
    # a single file of the usual name beside an index does not count
    save_file({"other": np.zeros(3, dtype=np.float32)}, folder / "model.safetensors")
    headers = headers_from_folder(folder)
    assert set(headers) == set(expected)
    assert any(header.file.name == "odd name.bin" for header in headers.values())


def test_a_missing_shard_is_named(folder: Path) -> None:
    (folder / "model-00002-of-00003.safetensors").unlink()
    error = refused(folder)
    assert error.code == "SPC221"
    assert "model-00002-of-00003.safetensors" in error.got


def test_a_tensor_that_its_shard_lacks(folder: Path) -> None:
    change_index(
        folder, **{"model.norm.weight": "model-00001-of-00003.safetensors", "ghost": "model-00001-of-00003.safetensors"}
    )
    error = refused(folder)
    assert error.code == "SPC221"
    assert "puts" in error.got


def test_a_tensor_in_two_shards(folder: Path) -> None:
    first, second = (folder / f"model-0000{i}-of-00003.safetensors" for i in (1, 2))
    name, tensor = next(iter(load_file(first).items()))
    save_file(load_file(second) | {name: tensor}, second)
    error = refused(folder)
    assert error.code == "SPC221"
    assert name in error.got


@pytest.mark.parametrize("shard", ["../x.safetensors", "/x.safetensors", "", "a\0b", "x" * 300, "a\\b"])
def test_shards_outside_the_folder(folder: Path, shard: str) -> None:
    change_index(folder, ghost=shard)
    error = refused(folder)
    assert error.code == "SPC221"
    assert "ghost" in error.place


@pytest.mark.parametrize(
    "index",
    [
        "[]",
        "{}",
        '{"weight_map": 3}',
        '{"weight_map": {"a": 3}}',
        "{",
        '{"weight_map": {}}',
        '{"weight_map": {"a": "\\ud800"}}',
    ],
)
def test_a_damaged_index(folder: Path, index: str) -> None:
    (folder / INDEX_FILE).write_text(index)
    assert refused(folder).code == "SPC210"


def test_several_files_without_an_index(folder: Path) -> None:
    (folder / INDEX_FILE).unlink()
    assert refused(folder).code == "SPC221"
    for file in sorted(folder.glob("*.safetensors"))[1:]:
        file.unlink()
    assert headers_from_folder(folder)
    next(folder.glob("*.safetensors")).unlink()
    assert refused(folder).code == "SPC201"
