"""Rows of the catalog agree with each other."""

from __future__ import annotations

from typing import get_args, get_type_hints

import pytest

from specc.bundle.manifest import AcceptanceMode
from specc.catalog.capabilities import (
    ACCEPTANCE_MODES,
    BACKENDS,
    DRAFT_KINDS,
    FEATURES,
    BackendName,
    FeatureName,
)
from specc.catalog.dtypes import DTYPES
from specc.catalog.families import FAMILIES
from specc.catalog.gpus import COMPUTE_CAPABILITIES, GPUS
from specc.catalog.schemes import CACHES, SCHEMES
from specc.plan.plan import BackendPlan, GraphPlan

REGISTRIES = {"gpus": GPUS, "schemes": SCHEMES, "dtypes": DTYPES, "backends": BACKENDS, "families": FAMILIES}


@pytest.mark.parametrize("registry", REGISTRIES)
def test_a_row_stands_under_its_own_name(registry) -> None:
    assert all(name == row.name for name, row in REGISTRIES[registry].items())


def test_backend_names_are_the_types_of_plans() -> None:
    assert set(BACKENDS) == set(get_args(BackendName))
    assert set(get_args(get_type_hints(BackendPlan)["name"])) == set(BACKENDS)


def test_features_and_acceptance_are_the_types_of_plans() -> None:
    assert set(FEATURES) == set(get_args(FeatureName))
    assert set(get_args(get_args(get_type_hints(GraphPlan)["features"])[0])) == set(FEATURES)
    assert set(get_args(AcceptanceMode)) <= set(ACCEPTANCE_MODES)


@pytest.mark.parametrize("backend", BACKENDS.values(), ids=lambda row: row.name)
def test_backend_rows_name_rows(backend) -> None:
    assert backend.default_scheme in backend.schemes
    assert set(backend.schemes) | set(backend.refused_schemes) <= set(SCHEMES)
    assert not set(backend.schemes) & set(backend.refused_schemes)
    assert set(backend.caches) | set(backend.refused_caches) == set(CACHES) <= set(DTYPES)
    assert not set(backend.caches) & set(backend.refused_caches)
    assert all(set(sms) <= set(backend.compute_capabilities) for sms in backend.caches.values())
    assert set(backend.draft_kinds) <= set(DRAFT_KINDS)
    assert set(backend.compute_capabilities) <= set(COMPUTE_CAPABILITIES)
    for support in backend.schemes.values():
        assert set(support.compute_capabilities) <= set(backend.compute_capabilities)
        assert support.compute_dtype in DTYPES


def test_every_gpu_says_where_its_facts_were_read() -> None:
    assert all(len(row.source) > 40 for row in GPUS.values() if row.name != "cpu")


def test_tensorrt_rtx_leaves_data_centre_gpus_to_others() -> None:
    assert BACKENDS["tensorrt-rtx"].compute_capabilities == ("7.5", "8.0", "8.6", "8.9", "12.0", "12.1")
    assert "7.5" not in BACKENDS["tensorrt-rtx"].schemes["bf16"].compute_capabilities


@pytest.mark.parametrize("gpu", [row for row in GPUS.values() if row.name != "cpu"], ids=lambda row: row.name)
def test_gpu_rows_have_sensible_units(gpu) -> None:
    assert gpu.compute_capability in COMPUTE_CAPABILITIES or gpu.planning_only
    assert 10e9 < gpu.memory_bytes < 300e9
    # Reading the whole memory once takes between 10 ms and 1 s on every card made so far.
    assert 0.01 < gpu.memory_bytes / gpu.bandwidth_bytes < 1


@pytest.mark.parametrize("gpu", [row for row in GPUS.values() if row.name != "cpu"], ids=lambda row: row.name)
def test_gpu_peaks_rise_with_narrower_types(gpu) -> None:
    peaks = gpu.peaks
    assert peaks.f32 < peaks.f16
    for narrow, wide in (("fp8", "f16"), ("int8", "f16"), ("fp4", "fp8")):
        if peaks.rate(narrow) is not None:
            assert 1.5 < peaks.rate(narrow) / peaks.rate(wide) < 5
    # A product of f16 weights with one row is bound by memory on every one of them, by far.
    assert peaks.f16 / gpu.bandwidth_bytes > 50
    assert gpu.memory_kind in ("hbm", "gddr", "lpddr")
    assert len(gpu.source) > 10
