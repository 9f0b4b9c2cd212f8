"""The coded errors of the ONNX Runtime back end and of its runner."""

from __future__ import annotations

import errno
import importlib.metadata
import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from specc.backends.onnxruntime import OnnxRuntimeBackend
from specc.errors import SpeccError
from specc.lower.lowered import Lowered
from specc.lower.lowered_from_plan import lowered_from_plan
from specc.lower.place import link_or_copy
from specc.plan.plan import Plan
from specc.progress import silent
from specc.runtime.runners.onnxruntime import onnxruntime_runner
from tests.tiny_engines import plan_from_facts, source_from_sizes, tiny_engines, tiny_graph_plan
from tests.tiny_models import TinyLlama


@pytest.fixture
def lowered(tmp_path: Path) -> tuple[Lowered, Plan]:
    source = source_from_sizes(tmp_path / "source", TinyLlama())
    plan = plan_from_facts(source.facts, tiny_graph_plan(variants=("main",)))
    for name in ("lowered", "engines"):
        (tmp_path / name).mkdir()
    return lowered_from_plan(plan, source, tmp_path / "lowered", silent), plan


def test_spc501_the_library_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", absent)
    with pytest.raises(SpeccError) as caught:
        OnnxRuntimeBackend().toolchain()
    assert caught.value.code == "SPC501"
    assert caught.value.place == "backend.name onnxruntime"
    assert caught.value.got == "The package `onnxruntime` is not installed."
    assert caught.value.fix == "pip install 'specc[cpu]'"


def test_spc502_onnx_runtime_refuses_the_graph(tmp_path: Path, lowered: tuple[Lowered, Plan]) -> None:
    (tmp_path / "lowered" / "tables.safetensors").write_bytes(b"short")
    with pytest.raises(SpeccError) as caught:
        OnnxRuntimeBackend().engines_from_lowered(*lowered, tmp_path / "engines", link_or_copy, silent)
    assert caught.value.code == "SPC502"
    assert caught.value.place == str(tmp_path / "engines" / "target.onnx")
    assert caught.value.got.startswith("ONNX Runtime cannot run the engine: ")
    assert caught.value.fix.startswith("Use an ONNX Runtime that specc supports (`pip install 'specc[cpu]'`)")


def test_spc502_a_pick_outside_the_vocabulary(tmp_path: Path, lowered: tuple[Lowered, Plan]) -> None:
    files, plan = lowered
    facts = replace(plan.target.facts, emitted_vocab_size=0)
    narrow = replace(plan, target=replace(plan.target, facts=facts))
    with pytest.raises(SpeccError, match="outside the vocabulary") as caught:
        OnnxRuntimeBackend().engines_from_lowered(files, narrow, tmp_path / "engines", link_or_copy, silent)
    assert caught.value.code == "SPC502"


def test_spc503_the_disk_is_full(
    tmp_path: Path, lowered: tuple[Lowered, Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_source: Path, _target: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "link", full)
    monkeypatch.setattr(shutil, "copyfile", full)
    with pytest.raises(SpeccError) as caught:
        OnnxRuntimeBackend().engines_from_lowered(*lowered, tmp_path / "engines", link_or_copy, silent)
    assert caught.value.code == "SPC503"
    assert caught.value.place == str(tmp_path / "engines" / "target.onnx")
    assert caught.value.got == "The engine's file cannot be written: No space left on device."
    assert caught.value.fix == "Free space on that disk, or build elsewhere with `--out DIR`."


def test_spc740_the_runtime_lacks_onnx_runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engines = tiny_engines(tmp_path, graph=tiny_graph_plan(variants=("main",)))
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(SpeccError) as caught:
        onnxruntime_runner(engines.folder, engines.specs[0])
    assert caught.value.code == "SPC740"
    assert caught.value.place == str(engines.folder)
    assert caught.value.got == "The package `onnxruntime` is not installed."
    assert caught.value.fix == "pip install onnxruntime"


@pytest.mark.parametrize("damage", ["weights gone", "graph cut", "graph empty"])
def test_spc741_the_engine_cannot_be_loaded(tmp_path: Path, damage: str) -> None:
    engines = tiny_engines(tmp_path, graph=tiny_graph_plan(variants=("main",)))
    graph = engines.folder / "target.onnx"
    if damage == "weights gone":
        (engines.folder / "model.safetensors").unlink()
    elif damage == "graph cut":
        content = graph.read_bytes()
        graph.unlink()
        graph.write_bytes(content[: len(content) // 2])
    else:
        graph.unlink()
    with pytest.raises(SpeccError) as caught:
        onnxruntime_runner(engines.folder, engines.specs[0])
    assert caught.value.code == "SPC741"
    assert caught.value.place == str(graph)
    assert "cannot load the engine" in caught.value.got
    assert caught.value.fix.startswith("Check the bundle with `specc inspect`")
