"""What a plan decides for TensorRT-LLM: drafts by batch, where speculation ends, memory of the fullest GPU."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specc.bundle.drafts import HeadDraftSpec
from specc.plan.make import plan_from_recipe
from specc.plan.plan import Plan
from specc.plan.prediction import Prediction
from specc.plan.trtllm_plan import TrtllmPlan
from specc.recipe.load import recipe_from_text
from tests.published_speedups import llama_like
from tests.stated_source import StatedSource

TARGET = replace(llama_like(8192, 28672, 80, (64, 8), 128256), stored_dtype="bf16", max_position_embeddings=8192)
DRAFT = replace(
    llama_like(2048, 8192, 16, (32, 8), 128256, tied=True), stored_dtype="bf16", max_position_embeddings=8192
)
RECIPE = """\
recipe: 1
name: r
target: {model: m}
draft: {kind: model, model: d}
gpu: {name: h100-sxm-80gb, count: 4}
backend: {name: tensorrt-llm, flow: serve, version: "1.2.1"}
limits: {max_batch: 64, max_input: 1024, max_output: 512}
"""


def planned(**changes: str) -> tuple[Plan, TrtllmPlan]:
    lines = dict(line.split(": ", 1) for line in RECIPE.splitlines()) | changes
    text = "".join(f"{key}: {value}\n" for key, value in lines.items())
    plan = plan_from_recipe(
        recipe_from_text(text, "r.yaml"), StatedSource(uri="m", facts=TARGET), StatedSource(uri="d", facts=DRAFT)
    )
    assert plan.backend.trtllm is not None
    return plan, plan.backend.trtllm


def test_the_schedule_follows_the_table_and_never_rises() -> None:
    plan, trtllm = planned()
    speculation, outlook = trtllm.speculation, plan.prediction
    assert isinstance(outlook, Prediction)
    assert speculation.max_draft_len == plan.limits.default_gamma
    drafts = [entry.drafts for entry in speculation.schedule]
    assert drafts == sorted(drafts, reverse=True)
    assert speculation.schedule[0].batch == 1
    assert drafts[0] == speculation.max_draft_len
    for line in outlook.batches:
        if line.batch <= 64:
            allowed = [entry.drafts for entry in speculation.schedule if entry.batch <= line.batch][-1]
            assert allowed <= max(line.gamma, 0) or line.batch == 1


def test_speculation_ends_where_it_no_longer_pays() -> None:
    """A step of c AR steps that gives 1 + a tokens is as fast as AR decoding at a = c - 1."""
    plan, trtllm = planned()
    outlook = plan.prediction
    assert isinstance(outlook, Prediction)
    steps = (outlook.verify_step_ms + outlook.drafting_ms) / outlook.ar_step_ms
    assert trtllm.speculation.min_accepted == pytest.approx(steps - 1, rel=1e-3)
    assert planned(runtime="{fallback: {min_speedup: 0}}")[1].speculation.min_accepted is None


def test_versions_without_a_schedule_get_a_batch_limit() -> None:
    _, old = planned(backend='{name: tensorrt-llm, flow: serve, version: "1.1.0"}')
    _, new = planned()
    assert old.speculation.schedule == ()
    ends = [entry.batch for entry in new.speculation.schedule if entry.drafts == 0]
    assert old.speculation.max_concurrency == (ends[0] - 1 if ends else None)
    assert new.speculation.max_concurrency is None


@pytest.mark.parametrize(("flow", "gpus"), [("serve", 4), ("engine", 1)])
def test_the_draft_is_split_with_the_target_or_alone(flow: str, gpus: int) -> None:
    plan, trtllm = planned(backend=f"{{name: tensorrt-llm, flow: {flow}}}")
    assert trtllm.draft is not None
    assert (trtllm.target.world_size, trtllm.draft.world_size) == (4, gpus)
    sizes = {item.name: item.bytes for item in plan.memory}
    assert sizes["draft weights: mlp"] == 3 * 2048 * 8192 * 16 * 2 / gpus
    assert sizes["weights: mlp"] == 3 * 8192 * 28672 * 80 * 2 / 4


def test_a_head_is_loaded_by_the_server_and_counted() -> None:
    plan, trtllm = planned(draft="{kind: eagle3, model: hf://owner/head, taps: [1, 39, 76]}")
    assert plan.draft == HeadDraftSpec("eagle3", "owner/head")
    assert (trtllm.draft, trtllm.speculation.head, trtllm.speculation.taps) == (None, "owner/head", (1, 39, 76))
    assert any(item.name.startswith("draft weights") for item in plan.memory)
    assert isinstance(plan.prediction, Prediction)


@pytest.mark.parametrize("flow", ["serve", "engine"])
def test_no_equality_to_the_last_token_is_promised(flow: str) -> None:
    plan, _ = planned(backend=f"{{name: tensorrt-llm, flow: {flow}}}")
    assert any("greedy text may differ from AR where two logits nearly tie" in note for note in plan.notes)


def test_what_a_version_goes_without_is_said() -> None:
    plan, _ = planned(
        backend='{name: tensorrt-llm, flow: serve, version: "1.1.0"}', draft="{kind: ngram, min_ngram: 2}"
    )
    said = " ".join(note for note in plan.notes if note.startswith("TensorRT-LLM 1.1.0 has no"))
    assert "min_ngram 2" in said
    assert '"1.2.0" or "1.3.0rc29"' in said  # these end speculation by themselves
    plan, _ = planned(
        backend='{name: tensorrt-llm, flow: serve, version: "1.3.0rc29"}', draft="{kind: suffix, max_depth: 8}"
    )
    assert any("max_depth" in note for note in plan.notes)


def test_a_context_is_longer_by_the_drafts_of_a_step() -> None:
    plan, trtllm = planned()
    assert trtllm.max_seq_len > plan.limits.max_length
    assert trtllm.draft_max_seq_len >= trtllm.max_seq_len + plan.limits.max_gamma
    assert trtllm.max_num_tokens >= plan.limits.max_batch * (plan.limits.max_gamma + 1)
