"""SPC351: versions of TensorRT that are reported to fail on engines like those of a recipe."""

from __future__ import annotations

import importlib.metadata
from dataclasses import replace
from pathlib import Path

import pytest

from specc.catalog.capabilities import BACKENDS
from specc.catalog.gpus import COMPUTE_CAPABILITIES
from specc.catalog.known_bad import KNOWN_BAD
from specc.doctor.rules.known_bad import concerns, within
from specc.plan.plan import BackendPlan, Plan
from tests.checked_pair import TARGET, checked
from tests.tiny_engines import plan_from_facts, source_from_sizes, tiny_graph_plan
from tests.tiny_models import llama_folder

RECIPE = """\
recipe: 1
name: tiny
target: {{model: target, scheme: {scheme}}}
draft: ngram
gpu: {gpu}
backend: tensorrt
acceptance: {acceptance}
limits: {{max_batch: 1, max_input: {longest}, max_output: 128}}
"""


def found(
    folder: Path, *, scheme: str = "bf16", gpu: str = "h100-sxm-80gb", acceptance: str = "coupled", longest: int = 256
) -> list[tuple[str, str, str]]:
    """Return the severity, the reported and the installed version of each finding."""
    if not (folder / "target").is_dir():
        llama_folder(folder / "target", replace(TARGET, max_position_embeddings=2048))
    report = checked(folder, RECIPE.format(scheme=scheme, gpu=gpu, acceptance=acceptance, longest=longest))
    assert report.of("error") == ()
    findings = [finding for finding in report.findings if finding.code == "SPC351"]
    assert all(finding.fix is not None and finding.place.endswith("backend.name") for finding in findings)
    return [(finding.severity, *(value for value, _ in finding.evidence)) for finding in findings]


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Versions of TensorRT by package; a test puts some in."""
    versions: dict[str, str] = {}
    real = importlib.metadata.version

    def version(name: str) -> str:
        if name in versions:
            return versions[name]
        if name in ("tensorrt", "tensorrt_rtx"):
            raise importlib.metadata.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    return versions


def test_spc351_a_version_that_leaks_is_warned_of(tmp_path: Path, installed: dict[str, str]) -> None:
    for version, warns in (("11.0.0.1", 0), ("11.1.0.106", 1), ("11.2.1.2", 1), ("11.2.2.0", 0), ("11.4.0.106", 0)):
        installed["tensorrt"] = version
        leaks = [finding for finding in found(tmp_path) if "11.1 to 11.2.1" in finding[1]]
        assert leaks == [("warning", "tensorrt 11.1 to 11.2.1", f"tensorrt is {version}")] * warns
    installed["tensorrt"] = "11.1.0.106"
    assert found(tmp_path, acceptance="block") == [], "its engines hold no kernels of specc"


def test_spc351_a_precision_is_part_of_a_report(tmp_path: Path, installed: dict[str, str]) -> None:
    installed["tensorrt"] = "11.2.0.113"
    wrong = ("warning", "tensorrt 11.2", "tensorrt is 11.2.0.113")
    assert wrong in found(tmp_path, scheme="f16", longest=1400)
    assert wrong not in found(tmp_path, scheme="bf16", longest=1400)
    assert wrong not in found(tmp_path, scheme="f16", longest=256)


def test_spc351_is_a_note_where_no_library_is_installed(tmp_path: Path, installed: dict[str, str]) -> None:
    assert found(tmp_path) == [("note", "tensorrt 11.1 to 11.2.1", "tensorrt is not installed here")]


def test_a_gpu_is_part_of_a_report(tmp_path: Path, installed: dict[str, str]) -> None:
    installed["tensorrt"] = "11.2.0.113"
    row = next(row for row in KNOWN_BAD if row.compute_capabilities)
    plan = plan_of(tmp_path, capacity=row.least_capacity)
    sms = replace(plan.backend, compute_capabilities=row.compute_capabilities)
    assert concerns(row, replace(plan, backend=sms))
    assert not concerns(row, plan)
    assert not concerns(row, replace(plan_of(tmp_path, capacity=row.least_capacity - 1), backend=sms))


def plan_of(folder: Path, capacity: int) -> Plan:
    source = source_from_sizes(folder / "source", TARGET)
    plan = plan_from_facts(source.facts, tiny_graph_plan(compute_dtype="bf16", capacity_buckets=(capacity,)))
    return replace(plan, backend=BackendPlan("tensorrt", (), ("9.0",)))


@pytest.mark.parametrize("row", KNOWN_BAD, ids=lambda row: row.name)
def test_every_row_names_what_was_reported_and_where(row) -> None:
    assert row.backend in BACKENDS
    assert set(row.compute_capabilities) <= set(COMPUTE_CAPABILITIES)
    assert row.first <= row.last
    assert within(row, row.first)
    assert within(row, (*row.last, 99))
    assert not within(row, (row.last[0] + 1,))
    assert "2026-" in row.source
    assert row.what.endswith(".")
