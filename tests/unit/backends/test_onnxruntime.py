from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from specc.backends.onnxruntime import OnnxRuntimeBackend
from specc.lower.lowered_from_plan import lowered_from_plan
from specc.lower.place import link_or_copy
from specc.progress import silent
from specc.runtime.runners.runner import neutral_inputs
from tests.tiny_engines import plan_from_facts, source_from_sizes, tiny_engines, tiny_graph_plan
from tests.tiny_models import TinyLlama


def test_engines_are_links_with_the_specs_of_the_plan(tmp_path: Path) -> None:
    engines = tiny_engines(tmp_path, TinyLlama(stored="bf16"))
    names = {path.name for path in engines.folder.iterdir()}
    assert names == {"target.onnx", "target.logits.onnx", "model.safetensors", "tables.safetensors"}
    for name in names:
        assert (engines.folder / name).stat().st_ino == (tmp_path / "lowered" / name).stat().st_ino
    assert [(spec.variant, spec.file, spec.format) for spec in engines.specs] == [
        ("main", "target.onnx", "onnx"),
        ("logits", "target.logits.onnx", "onnx"),
    ]
    main = engines.specs[0]
    assert main.capacity is None
    assert main.capacity_buckets == (64, 128, 544)
    assert [profile.name for profile in main.profiles] == ["any"]
    assert main.compute_capabilities == ()


def test_the_specs_are_those_of_the_file(tmp_path: Path) -> None:
    engines = tiny_engines(tmp_path)
    for spec in engines.specs:
        session = onnxruntime.InferenceSession(engines.folder / spec.file)
        for stated, found in ((spec.inputs, session.get_inputs()), (spec.outputs, session.get_outputs())):
            assert [(t.name, list(t.shape)) for t in stated] == [(t.name, t.shape) for t in found]


def test_each_engine_is_run_once_and_progress_is_told(tmp_path: Path) -> None:
    source = source_from_sizes(tmp_path / "source", TinyLlama())
    plan = plan_from_facts(source.facts, tiny_graph_plan())
    for name in ("lowered", "engines"):
        (tmp_path / name).mkdir()
    lowered = lowered_from_plan(plan, source, tmp_path / "lowered", silent)
    told: list[tuple[str, int, int]] = []
    OnnxRuntimeBackend().engines_from_lowered(
        lowered, plan, tmp_path / "engines", link_or_copy, lambda *a: told.append(a)
    )
    assert told == [("prove engines", 0, 2), ("prove engines", 1, 2), ("prove engines", 2, 2)]


def test_the_toolchain_is_the_installed_version() -> None:
    assert OnnxRuntimeBackend().toolchain() == {"onnxruntime": onnxruntime.__version__}


def test_an_engine_loads_from_any_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engines = tiny_engines(tmp_path / "build", graph=tiny_graph_plan(variants=("main",)))
    monkeypatch.chdir(tmp_path / "build")
    engines.folder = Path("engines")
    runner = engines.runner()
    monkeypatch.chdir("/")
    runner.reserve(1, 10)
    inputs = {"input_ids": np.array([[1, 2]]), "num_tokens": np.array([2]), "past_lengths": np.array([0])}
    out = runner.step(0, neutral_inputs(runner.spec, 1, inputs | {"logit_rows": np.array([[1]])}))
    assert out["next_past"].tolist() == [2]
    runner.close()
