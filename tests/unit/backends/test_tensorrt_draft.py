"""A draft engine of TensorRT-RTX, built on a machine without a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from specc.backends.tensorrt import TensorRtBackend
from specc.backends.tensorrt_file import attention_kernels
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
@pytest.mark.parametrize(
    ("heads", "kv_heads", "acceptance"), [(4, 2, "rejection"), (2, 1, "greedy"), (1, 1, "greedy"), (3, 3, "greedy")]
)
def test_a_draft_engine_has_a_kernel_for_a_single_token(
    tmp_path: Path, heads: int, kv_heads: int, acceptance: str
) -> None:
    """Attention is the same whether drafts are drawn, which takes the builder most of its time: one case has it."""
    sizes = TinyLlama(
        stored="bf16", num_hidden_layers=1, num_attention_heads=heads, num_key_value_heads=kv_heads, head_dim=16
    )
    source = source_from_sizes(tmp_path / "source", sizes)
    graph = tiny_graph_plan(
        role="draft", variants=("main",), compute_dtype="bf16", capacity_buckets=(128,), acceptance=acceptance
    )
    profiles = draft_profiles(BACKENDS["tensorrt-rtx"], LimitsSpec(4, 64, 32, 96, 32, 4, 4))
    plan = rtx_plan(plan_from_facts(source.facts, graph), profiles, sms=("8.9",))
    for name in ("lowered", "engines"):
        (tmp_path / name).mkdir()
    lowered = lowered_from_plan(plan, source, tmp_path / "lowered", silent)
    (spec,) = TensorRtBackend().engines_from_lowered(lowered, plan, tmp_path / "engines", link_or_copy, silent)
    assert (spec.role, spec.file, spec.compute_dtype) == ("draft", "draft.engine", "bf16")
    assert [profile.tokens for profile in spec.profiles] == [(1, 32, 32), (2, 2, 2), (1, 1, 1)]
    kernels = set(attention_kernels(tmp_path / "engines" / spec.file))
    assert kernels == {"_gemm_mha_v2", "_gemv_mha_v1"}
