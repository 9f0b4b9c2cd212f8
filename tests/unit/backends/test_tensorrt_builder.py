"""Engines of TensorRT from a recipe, where GPU, builder and parser are stood in for (`tensorrt_builder.py`)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from specc.backends.engine_list import engines_in_folder
from specc.bundle.lock import LOCK_FILE, RecipeLock
from specc.bundle.manifest import Manifest
from specc.bundle.record import record_from_file
from specc.catalog.capabilities import BACKENDS
from specc.pipeline import BuildRequest
from specc.plugin.bundle import KernelBundle
from specc.plugin.operators import CHAINS
from specc.plugin.variants import variants_of_chain
from tests.tensorrt_builder import SIZES, STAND_INS, VERSION, Machine
from tests.tensorrt_case import built, refused, told
from tests.tensorrt_layer import real_classes

FIRST = {"8.0": "a100-sxm-80gb", "8.9": "l40s", "10.0": "b200"}


@pytest.mark.parametrize("mode", CHAINS)
def test_kernels_are_registered_before_the_graph_is_parsed(
    trt_request: BuildRequest, machine: Machine, trt_recipe: Path, mode: str
) -> None:
    """The double's parser refuses operators without a creator, and its build takes each kernel as TensorRT would."""
    folder = built(trt_request, f"acceptance={mode}")
    (spec,) = engines_in_folder(folder).engines
    kernels = KernelBundle(trt_recipe.parent / "kernels", "9.0")
    row_length, head = (64, "fused") if mode == "greedy" else (SIZES["W"], "native")
    variants = variants_of_chain(mode, "f16", row_length, head)  # type: ignore[arg-type]
    assert told(folder)["kernels"] == [[kernels.kernel(v).spec.entry, kernels.kernel(v).ptx] for v in variants]
    assert (spec.format, spec.verification, spec.kernels) == ("tensorrt", "plugin", kernels.digest(variants))
    assert (spec.compute_capabilities, spec.built_on) == (("9.0",), "NVIDIA H100 80GB HBM3 (SM 9.0)")
    assert (spec.library, spec.batch_buckets) == (VERSION, (1, 2))
    assert [call[0] for call in machine.calls] == ["parse", "build", "timings", "told"]


def test_scaled_logits_are_read_as_they_are_made(
    trt_request: BuildRequest, machine: Machine, trt_recipe: Path, tmp_path: Path
) -> None:
    """Granite divides its logits, in float32 and without the head's padding; kernels for these are compiled."""
    shutil.copytree(trt_recipe.parent / "model", tmp_path / "granite")
    config = json.loads((tmp_path / "granite" / "config.json").read_text())
    config |= {"model_type": "granite", "architectures": ["GraniteForCausalLM"], "logits_scaling": 8.0}
    config |= {"attention_multiplier": 0.25, "embedding_multiplier": 1.0, "residual_multiplier": 1.0}
    (tmp_path / "granite" / "config.json").write_text(json.dumps(config))
    folder = built(trt_request, f"target.model={tmp_path / 'granite'}", "acceptance=greedy")
    kernels = KernelBundle(trt_recipe.parent / "kernels", "9.0")
    variants = variants_of_chain("greedy", "f32", 259)
    assert told(folder)["kernels"] == [[kernels.kernel(v).spec.entry, kernels.kernel(v).ptx] for v in variants]
    assert engines_in_folder(folder).engines[0].kernels == kernels.digest(variants)


@pytest.mark.parametrize("stated", [(), ("backend.head=fused",), ("backend.head=native",)])
def test_a_greedy_bundle_of_many_rows_keeps_no_logits(
    trt_request: BuildRequest, machine: Machine, trt_recipe: Path, stated: tuple[str, ...]
) -> None:
    """Ten rows over a hidden size of 64 are 15.6 %: one kernel multiplies and reduces, unless the recipe says."""
    folder = built(trt_request, "acceptance=greedy", *stated)
    (spec,) = engines_in_folder(folder).engines
    native = stated == ("backend.head=native",)
    entries = ["row_partials", "chain_accept"] if native else ["lmhead_partials", "chain_accept"]
    assert [kernel[0] for kernel in told(folder)["kernels"]] == entries
    assert spec.head == ("native" if native else "fused")
    kernels = KernelBundle(trt_recipe.parent / "kernels", "9.0")
    variants = variants_of_chain("greedy", "f16", 264) if native else variants_of_chain("greedy", "f16", 64, "fused")
    assert spec.kernels == kernels.digest(variants)


@pytest.mark.parametrize("mode", ["block", "typical"])
def test_modes_without_kernels_are_verified_natively(trt_request: BuildRequest, machine: Machine, mode: str) -> None:
    folder = built(trt_request, f"acceptance={mode}", "lossy=true", kernels=Path("nowhere"))
    (spec,) = engines_in_folder(folder).engines
    assert told(folder)["kernels"] == []
    assert (spec.verification, spec.kernels) == ("native", "")


def test_a_network_is_strongly_typed_and_has_three_profiles(trt_request: BuildRequest, machine: Machine) -> None:
    engine = told(built(trt_request))
    assert engine["flags"] == 1 << 0
    shapes = [profile["input_ids"] for profile in engine["profiles"]]
    assert shapes == [[[1, 1], [2, 16], [2, 16]], [[1, 1], [2, 1], [2, 1]], [[1, 1], [2, 5], [2, 5]]]
    assert engine["profiles"][0]["key_cache_0"][0][0] == 1
    assert (engine["pools"], engine["compatibility"]) == ({}, None)


def test_limits_and_compatibility_reach_the_builder(
    trt_request: BuildRequest, machine: Machine, trt_recipe: Path
) -> None:
    folder = built(
        trt_request, "backend.hardware_compatibility=ampere-plus", "backend.builder_memory_gb=1.5",
        "backend.builder_minutes=10",
    )  # fmt: skip
    engine, (spec,) = told(folder), engines_in_folder(folder).engines
    assert engine["compatibility"] == "AMPERE_PLUS"
    assert engine["pools"] == {"WORKSPACE": 1_500_000_000, "TACTIC_DRAM": 1_500_000_000}
    assert spec.compute_capabilities[0] == "8.0"
    assert "9.0" in spec.compute_capabilities
    kernels = KernelBundle(trt_recipe.parent / "kernels", "8.0")
    assert engine["kernels"][0][1] == kernels.kernel(variants_of_chain("coupled", "f16", SIZES["W"])[0]).ptx
    assert told(built(trt_request, "backend.hardware_compatibility=same-compute-capability"))["compatibility"] == (
        "SAME_COMPUTE_CAPABILITY"
    )


@pytest.mark.parametrize("scheme", [name for name, row in BACKENDS["tensorrt"].schemes.items() if row.formats])
def test_quantized_graphs_reach_the_builder(trt_request: BuildRequest, machine: Machine, scheme: str) -> None:
    """On the first GPU of the scheme's row; the kernels are those of the graph's own dtype."""
    sm = BACKENDS["tensorrt"].schemes[scheme].compute_capabilities[0]
    gpu = FIRST[sm]
    machine.gpu = (gpu, sm)
    wanted = f"{{name: {scheme}, group_size: 32}}" if scheme == "w4a16" else scheme
    folder = built(trt_request, f"target.scheme={wanted}", f"gpu={gpu}")
    (spec,) = engines_in_folder(folder).engines
    assert (spec.scheme, spec.compute_dtype, spec.compute_capabilities) == (scheme, "f16", (sm,))
    assert [kernel[0] for kernel in told(folder)["kernels"]] == ["row_thresholds", "row_partials", "chain_accept"]


def test_a_draft_model_has_an_engine_without_kernels(trt_request: BuildRequest, machine: Machine) -> None:
    built(trt_request, "draft={kind: model, model: small, scheme: f16}")
    assert machine.named("parse") == ["target.onnx", "draft.onnx"]
    assert [bool(engine["kernels"]) for engine in machine.named("told")] == [True, False]


def test_a_bundle_states_kernels_timings_and_gpu(trt_request: BuildRequest, machine: Machine, trt_recipe: Path) -> None:
    bundle = built(trt_request, stop_after="publish")
    manifest, lock = (
        record_from_file(Manifest, bundle / "manifest.json"),
        record_from_file(RecipeLock, bundle / LOCK_FILE),
    )
    (spec,) = manifest.engines
    assert spec.kernels == lock.kernels != ""
    assert manifest.toolchain["tensorrt"] == VERSION
    assert list(lock.timing_caches) == ["target"]
    assert json.loads((bundle / spec.file).read_text())["kernels"]
    assert not [file for file in manifest.files if "timing" in file]


def test_a_lock_with_other_kernels_is_refused(trt_request: BuildRequest, machine: Machine, tmp_path: Path) -> None:
    lock = built(trt_request, stop_after="publish") / LOCK_FILE
    content = json.loads(lock.read_text())
    (tmp_path / "other.json").write_text(json.dumps(content | {"kernels": "0" * 64}))
    error = refused(trt_request, locked=True, lock=tmp_path / "other.json")
    assert error.code == "SPC610"
    assert "locked are 000000000000" in error.got


@pytest.mark.parametrize("changed", ["9.0", "everything"])
def test_kernels_that_are_not_whole_are_refused_before_a_build(
    trt_request: BuildRequest, machine: Machine, trt_recipe: Path, tmp_path: Path, changed: str
) -> None:
    folder = tmp_path / "kernels"
    shutil.copytree(trt_recipe.parent / "kernels", folder)
    if changed == "everything":
        shutil.rmtree(folder / "9.0")
    else:
        (folder / "9.0" / "CoupledAccept.any.ptx").write_text("")
    error = refused(trt_request, kernels=folder)
    assert error.code == "SPC531"
    assert machine.calls == []


@pytest.mark.parametrize("name", STAND_INS)
def test_the_stand_ins_have_names_of_the_real_classes(machine: Machine, name: str) -> None:
    with_double = {part for part in vars(STAND_INS[name]) if not part.startswith("_")}
    real = real_classes()[name]
    assert with_double
    assert with_double <= set(dir(real))


def test_the_enumerations_are_those_of_the_real_layer(machine: Machine) -> None:
    import tensorrt

    for kind, names in {
        "LayerType": ("KV_CACHE_UPDATE", "ATTENTION_INPUT", "PLUGIN_V3"),
        "HardwareCompatibilityLevel": ("NONE", "AMPERE_PLUS", "SAME_COMPUTE_CAPABILITY"),
        "MemoryPoolType": ("WORKSPACE", "TACTIC_DRAM"),
    }.items():
        assert set(names) <= set(vars(tensorrt)[kind].__members__)
