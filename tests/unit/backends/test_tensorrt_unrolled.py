"""An unrolled draft engine of TensorRT-RTX, built on a machine without a GPU."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from specc.backends.tensorrt import TensorRtBackend
from specc.bundle.manifest import LimitsSpec
from specc.catalog.capabilities import BACKENDS
from specc.lower.lowered_from_plan import lowered_from_plan
from specc.lower.place import link_or_copy
from specc.plan.profiles import draft_profiles
from specc.progress import silent
from tests.tensorrt_double import rtx_plan
from tests.tiny_engines import plan_from_facts, source_from_sizes, tiny_graph_plan
from tests.tiny_models import TinyLlama


@pytest.mark.slow
@pytest.mark.parametrize("acceptance", ["greedy", "rejection"])
def test_an_unrolled_draft_builds_beside_the_single_step(tmp_path: Path, acceptance: str) -> None:
    source = source_from_sizes(tmp_path / "source", TinyLlama(stored="bf16", num_hidden_layers=1))
    graph = tiny_graph_plan(
        role="draft",
        variants=("main",),
        compute_dtype="bf16",
        capacity_buckets=(128,),
        acceptance=acceptance,
        steps=2,
    )
    profiles = draft_profiles(BACKENDS["tensorrt-rtx"], LimitsSpec(4, 64, 32, 96, 32, 4, 3))
    plan = rtx_plan(plan_from_facts(source.facts, graph), profiles, sms=("8.9",))
    plan = replace(plan, graph=replace(plan.graph, variants=("main", "unrolled")))
    for name in ("lowered", "engines"):
        (tmp_path / name).mkdir()
    # The static checks hold the network's cache updates against the caches, its attentions against layers x steps.
    lowered = lowered_from_plan(plan, source, tmp_path / "lowered", silent)
    specs = TensorRtBackend().engines_from_lowered(lowered, plan, tmp_path / "engines", link_or_copy, silent)
    assert [(spec.variant, spec.file, spec.steps) for spec in specs] == [
        ("main", "draft.engine", 1),
        ("unrolled", "draft.unrolled.engine", 2),
    ]
    assert [profile.tokens for profile in specs[1].profiles] == [(1, 1, 2)]
