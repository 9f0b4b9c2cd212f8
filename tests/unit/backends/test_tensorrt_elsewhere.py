"""A machine that cannot build engines of TensorRT gets everything ready for one that can."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from specc import stored
from specc.backends.engine_list import engines_in_folder
from specc.catalog.head_timings import HeadTiming
from specc.pipeline import BuildRequest
from specc.plugin import bundle_from_source
from specc.probe.heads import remember_head_timings
from tests.house.tree import ROOT
from tests.plugin_launch import write_empty_kernels
from tests.tensorrt_builder import Machine, tensorrt_machine
from tests.tensorrt_case import built, objects, refused, told


def test_an_engine_for_all_from_ampere_on_is_built_on_any_of_them(trt_request: BuildRequest, machine: Machine) -> None:
    machine.gpu = ("NVIDIA L4", "8.9")
    assert told(built(trt_request, "backend.hardware_compatibility=ampere-plus"))["compatibility"] == "AMPERE_PLUS"


def test_the_build_goes_on_where_the_gpu_is(
    trt_request: BuildRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a copy of the store: nothing is lowered or written again."""
    refused(trt_request)
    shutil.copytree(tmp_path / "store", tmp_path / "copied")
    monkeypatch.setenv("SPECC_CACHE", str(tmp_path / "copied"))

    def again(*_: object, **__: object) -> None:
        raise AssertionError("it was in the store")

    monkeypatch.setattr(stored, "write_weights", again)
    monkeypatch.setattr(stored, "write_graphs", again)
    with tensorrt_machine(Machine()):
        assert told(built(trt_request))["kernels"]


def test_timings_of_the_head_where_the_gpu_is_decide_anew_for_plan_graph_and_engine(
    trt_request: BuildRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was lowered elsewhere by rule is not built as what the plan of this machine says, but lowered anew."""
    greedy = "acceptance=greedy"
    refused(trt_request, greedy)
    by_rule = built(replace(trt_request, stop_after="lower"), greedy)
    remember_head_timings((HeadTiming("9.0", "f16", 64, 264, 10, native=1.0, fused=2.0, source="this card"),))

    def again(*_: object, **__: object) -> None:
        raise AssertionError("weights do not depend on it")

    monkeypatch.setattr(stored, "write_weights", again)
    with tensorrt_machine(Machine()):
        folder = built(trt_request, greedy)
        assert [entry for entry, _ in told(folder)["kernels"]] == ["row_partials", "chain_accept"]
        assert [engine.head for engine in engines_in_folder(folder).engines] == ["native"]
        lowered = built(replace(trt_request, stop_after="lower"), greedy)
        assert lowered != by_rule
        plan = built(replace(trt_request, stop_after="plan"), greedy)
        assert json.loads(plan.read_text())["graph"]["head"] == "native"
        # The recipe settles it for both machines.
        stated = built(replace(trt_request, stop_after="lower"), greedy, "backend.head=fused")
        assert stated == by_rule


def test_a_build_compiles_kernels_that_are_nowhere(
    trt_request: BuildRequest, machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And only those that the engine holds; what `specc kernels build` put into the store is taken first."""
    asked = []

    def write(variants: tuple[object, ...], target: object, folder: Path, progress: object) -> None:
        asked.append(len(variants))
        made = write_empty_kernels(tmp_path / f"made{len(asked)}", folder.name)
        shutil.copytree(made / folder.name, folder, dirs_exist_ok=True)

    monkeypatch.setattr(bundle_from_source, "write_kernels", write)
    folder = built(trt_request, kernels=None)
    assert (asked, built(trt_request, kernels=None)) == ([3], folder)
    assert "kernels for SM 9.0" in objects(tmp_path / "store")


def test_without_a_compiler_the_build_says_so_at_once(
    trt_request: BuildRequest, machine: Machine, tmp_path: Path, no_compiler: None
) -> None:
    error = refused(trt_request, kernels=None)
    assert error.code == "SPC532"
    assert "--kernels" in error.fix
    assert objects(tmp_path / "store") == []


def test_lowering_alone_needs_neither(trt_request: BuildRequest, tmp_path: Path) -> None:
    folder = built(replace(trt_request, stop_after="lower", kernels=None))
    assert (folder / "target.onnx").is_file()
    assert "tensorrt" not in sys.modules


def test_the_machine_with_the_gpu_needs_neither_triton_nor_torch(trt_request: BuildRequest) -> None:
    """A whole build, with both made impossible to import, from kernels that were compiled elsewhere."""
    paths = [str(path) for path in (trt_request.recipe, trt_request.out, trt_request.kernels)]
    code = (
        "import sys\n"
        "sys.modules.update(dict.fromkeys(['triton', 'torch']))\n"
        "from pathlib import Path\n"
        "from specc.pipeline import BuildRequest, build\n"
        "from tests.tensorrt_builder import Machine, tensorrt_machine\n"
        f"recipe, out, kernels = map(Path, {paths!r})\n"
        "with tensorrt_machine(Machine()):\n"
        "    request = BuildRequest(recipe, (), out, 'publish', False, None, True, False, kernels)\n"
        "    build(request, lambda *_: None, lambda _: None)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert (trt_request.out / "tiny" / "engines" / "target.engine").is_file()
