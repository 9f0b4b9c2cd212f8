from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from safetensors.numpy import load_file

from specc.lower.lowered_from_plan import lowered_from_plan
from specc.progress import silent
from tests.tiny_engines import FileSource, plan_from_facts, source_from_sizes, tiny_graph_plan
from tests.tiny_models import TinyLlama


def lowered_files(source: FileSource, folder: Path) -> dict[str, bytes]:
    folder.mkdir()
    lowered_from_plan(plan_from_facts(source.facts, tiny_graph_plan()), source, folder, silent)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_plain_weights_stay_in_the_sources_file_and_only_tables_are_written(tmp_path: Path) -> None:
    source = source_from_sizes(tmp_path / "source", TinyLlama())
    plan = plan_from_facts(source.facts, tiny_graph_plan())
    folder = tmp_path / "lowered"
    folder.mkdir()
    lowered = lowered_from_plan(plan, source, folder, silent)
    assert lowered.weight_files == ("model.safetensors", "tables.safetensors")
    assert [(graph.variant, graph.file) for graph in lowered.graphs] == [
        ("main", "target.onnx"),
        ("logits", "target.logits.onnx"),
    ]
    assert (folder / "model.safetensors").stat().st_ino == source.files[0].stat().st_ino
    assert set(load_file(folder / "tables.safetensors")) == {"rotary.cos", "rotary.sin"}
    assert source.reads == []


@pytest.mark.parametrize("stored", ["f16", "bf16"])
def test_block_encoded_weights_are_written_once_for_all_variants(tmp_path: Path, stored: str) -> None:
    source = source_from_sizes(tmp_path / "source", TinyLlama(stored=stored), plain=False)
    files = lowered_files(source, tmp_path / "lowered")
    assert set(files) == {
        "target.onnx",
        "target.logits.onnx",
        "weights.safetensors",
        "tables.safetensors",
        "lowered.json",
    }
    assert sorted(source.reads) == sorted(source.tensors)
    written = load_file(tmp_path / "lowered" / "weights.safetensors")
    for name, tensor in source.tensors.items():
        np.testing.assert_array_equal(written[name], tensor)


def test_graphs_stay_small_and_refer_to_plain_names_only(tmp_path: Path) -> None:
    source = source_from_sizes(tmp_path / "source", TinyLlama(), plain=False)
    files = lowered_files(source, tmp_path / "lowered")
    for name in ("target.onnx", "target.logits.onnx"):
        model = onnx.load_from_string(files[name])
        assert len(files[name]) < 60_000
        for initializer in model.graph.initializer:
            assert initializer.data_location == onnx.TensorProto.EXTERNAL
            (location,) = [item.value for item in initializer.external_data if item.key == "location"]
            assert location == ("tables" if initializer.name.startswith("rotary") else "weights") + ".safetensors"


def test_equal_input_gives_equal_bytes(tmp_path: Path) -> None:
    source = source_from_sizes(tmp_path / "source", TinyLlama(stored="bf16"), plain=False)
    assert lowered_files(source, tmp_path / "one") == lowered_files(source, tmp_path / "two")


def test_a_head_that_is_tied_is_not_asked_of_the_source(tmp_path: Path) -> None:
    source = source_from_sizes(tmp_path / "source", TinyLlama(tie_word_embeddings=True), plain=False)
    lowered_files(source, tmp_path / "lowered")
    assert "lm_head.weight" not in source.reads
    assert source.reads.count("model.embed_tokens.weight") == 1
