from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from specc.lower.place import link_or_copy
from specc.lower.stored_weights import WRITTEN_FILE, placed_files, split_headers
from specc.lower.weights import weight_bytes, weights_in_folder, weights_stay, write_weights
from specc.progress import silent
from tests.tiny_engines import plan_from_facts, source_from_sizes, tiny_graph_plan
from tests.tiny_models import TinyLlama


def test_files_are_linked_not_copied_and_links_are_resolved_first(tmp_path: Path) -> None:
    blob = tmp_path / "blobs" / "abc"
    blob.parent.mkdir()
    blob.write_bytes(b"x" * 10)
    link = tmp_path / "model.safetensors"
    link.symlink_to(blob)
    folder = tmp_path / "lowered"
    folder.mkdir()
    assert placed_files([link, link], folder, link_or_copy) == {link: "model.safetensors"}
    made = folder / "model.safetensors"
    assert not made.is_symlink()
    assert made.stat().st_ino == blob.stat().st_ino


def test_equal_names_of_different_files_are_numbered_and_ours_is_not_taken(tmp_path: Path) -> None:
    files = []
    for part in ("a", "b"):
        (tmp_path / part).mkdir()
        files.append(tmp_path / part / "m.safetensors")
        files[-1].write_text(part)
    other = tmp_path / WRITTEN_FILE
    other.write_text("w")
    folder = tmp_path / "lowered"
    folder.mkdir()
    names = placed_files([*files, other], folder, link_or_copy)
    assert list(names.values()) == ["m.safetensors", "1-m.safetensors", f"2-{WRITTEN_FILE}"]
    assert (folder / "1-m.safetensors").read_text() == "b"


def test_a_file_system_without_hard_links_gets_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_source: Path, _target: Path) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    file = tmp_path / "m.safetensors"
    file.write_text("abc")
    folder = tmp_path / "lowered"
    folder.mkdir()
    placed_files([file], folder, link_or_copy)
    assert (folder / "m.safetensors").read_text() == "abc"
    assert (folder / "m.safetensors").stat().st_ino != file.stat().st_ino


def test_a_file_of_which_little_serves_is_not_carried_along(tmp_path: Path) -> None:
    source = source_from_sizes(tmp_path / "source", TinyLlama())
    shapes = {name: tuple(header.shape) for name, header in source.headers.items()}
    assert set(split_headers(source, shapes)[0]) == set(shapes)
    for name, header in source.headers.items():
        source.headers[name] = replace(header, plain="norm" in name)
    kept, rest = split_headers(source, shapes)
    assert not kept
    assert set(rest) == set(shapes)


def test_the_bytes_to_be_written_are_known_beforehand(tmp_path: Path) -> None:
    for plain in (True, False):
        source = source_from_sizes(tmp_path / f"{plain}", TinyLlama(stored="f16"), plain=plain)
        plan = plan_from_facts(source.facts, tiny_graph_plan())
        folder = tmp_path / f"weights-{plain}"
        folder.mkdir()
        write_weights(plan, source, folder, link_or_copy, silent)
        written = sum(tensor.nbytes for tensor in source.tensors.values())
        assert weight_bytes(plan, source) == (0 if plain else written)
        assert (folder / WRITTEN_FILE).exists() is not plain
        assert weights_in_folder(folder)["model.norm.weight"].dtype == ("f16" if plain else "f32")


@pytest.mark.parametrize(
    ("stored", "compute", "stay"),
    [("bf16", "bf16", True), ("bf16", "f32", True), ("f16", "f16", True), ("bf16", "f16", False)],
)
def test_weights_that_are_neither_converted_nor_probed(tmp_path: Path, stored: str, compute: str, stay: bool) -> None:
    source = source_from_sizes(tmp_path, TinyLlama(stored=stored))
    plan = plan_from_facts(source.facts, replace(tiny_graph_plan(), compute_dtype=compute))
    assert weights_stay(plan, source) is stay
