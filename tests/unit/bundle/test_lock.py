"""The lock names files independent of the machine, survives its file, and lists what differs."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from specc.bundle.lock import LOCK_FILE, RecipeLock, SourceFiles, check_lock, lock_from_sources, read_lock
from specc.bundle.memory import DigestMemory
from specc.bundle.record import text_from_record
from specc.errors import SpeccBug, SpeccError


def _lock(folder: Path, revision: str | None = "r1", onnx: str = "1.20") -> RecipeLock:
    files = (folder / "shard" / "b.safetensors", folder / "config.json")
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.exists():
            file.write_text(file.name)
    sources = {"target": SourceFiles("acme/model", revision, files)}
    return lock_from_sources(sources, {"onnx": onnx}, DigestMemory(None).sha256)


def test_the_same_files_elsewhere_are_the_same_lock(tmp_path: Path) -> None:
    first, second = _lock(tmp_path / "here"), _lock(tmp_path / "there")
    assert first == second
    assert [file.name for file in first.sources["target"].files] == ["config.json", "shard/b.safetensors"]
    (tmp_path / LOCK_FILE).write_text(text_from_record(first))
    assert read_lock(tmp_path / LOCK_FILE) == first
    check_lock(first, second)


def test_a_single_file_is_named_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    lock = lock_from_sources(
        {"target": SourceFiles("m", None, (tmp_path / "model.gguf",))}, {}, DigestMemory(None).sha256
    )
    assert [(file.name, file.size) for file in lock.sources["target"].files] == [("model.gguf", 4)]
    with pytest.raises(SpeccBug):
        lock_from_sources({"target": SourceFiles("m", None, ())}, {}, DigestMemory(None).sha256)


def test_every_difference_is_listed(tmp_path: Path) -> None:
    lock = _lock(tmp_path)
    (tmp_path / "config.json").write_text("changed")
    actual = dataclasses.replace(_lock(tmp_path, "r2", "1.21"), specc_version="9")
    with pytest.raises(SpeccError) as caught:
        check_lock(lock, actual, "recipe.lock.json")
    assert (caught.value.code, caught.value.place) == ("SPC610", "recipe.lock.json")
    parts = caught.value.got.split("; ")
    assert parts[0] == f"specc is 9, locked is {lock.specc_version}"
    assert parts[1] == "onnx is 1.21, locked is 1.20"
    assert parts[2] == "target: revision r2, locked is r1"
    assert parts[3].startswith("target: config.json is sha256 ")
    assert len(parts) == 4


def test_roles_and_absent_files_are_differences(tmp_path: Path) -> None:
    lock = _lock(tmp_path)
    fewer = dataclasses.replace(lock.sources["target"], files=lock.sources["target"].files[:1], uri="other")
    actual = dataclasses.replace(lock, sources={"target": fewer, "draft": fewer}, toolchain={})
    with pytest.raises(SpeccError) as caught:
        check_lock(lock, actual)
    assert "onnx is absent, locked is 1.20" in caught.value.got
    assert "draft: not in the lock" in caught.value.got
    assert "target: the recipe names other, locked is acme/model" in caught.value.got
    assert "target: shard/b.safetensors is absent, locked is sha256 " in caught.value.got
