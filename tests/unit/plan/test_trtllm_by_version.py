"""Every drafter in every version: `speculative_config` to the last field, or a refusal that names the versions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from specc.backends.tensorrt_llm.engine_arguments import commands_from_plan
from specc.backends.tensorrt_llm.serve import serve_options
from specc.checkpoint.head_folder import HeadFolder
from specc.errors import SpeccError
from specc.plan import trtllm_speculation
from specc.plan.make import plan_from_recipe
from specc.plan.plan import Plan
from specc.plan.trtllm_plan import BatchDrafts
from specc.recipe.load import recipe_from_text
from tests.published_llm_args import problems
from tests.published_speedups import llama_like
from tests.stated_source import StatedSource

TARGET = replace(llama_like(8192, 28672, 80, (64, 8), 128256), stored_dtype="bf16", max_position_embeddings=8192)
DRAFT = replace(
    llama_like(2048, 8192, 16, (32, 8), 128256, tied=True), stored_dtype="bf16", max_position_embeddings=8192
)
RECIPE = """\
recipe: 1
name: r
target: {{model: m}}
draft: {draft}
gpu: {{name: h100-sxm-80gb, count: 4}}
backend: {{name: tensorrt-llm, flow: {flow}, version: "{version}"}}
limits: {{max_batch: 64, max_input: 1024, max_output: 512}}
"""
HEAD = HeadFolder("heads/one", (), "bf16")
DRAFTS = {
    "none": "{kind: none}",
    "model": "{kind: model, model: d}",
    "ngram": "{kind: ngram, max_ngram: 3}",
    "suffix": "{kind: suffix}",
    "self": "{kind: self, layers: 4}",
    "eagle3": "{kind: eagle3, model: heads/one}",
    "mtp": "{kind: mtp}",
    "pard": "{kind: pard, model: heads/one, mask_token_id: 7}",
    "dflash": "{kind: dflash, model: heads/one, mask_token_id: 7}",
    "dspark": "{kind: dspark, model: heads/one}",
}
SCHEDULE = (BatchDrafts(1, 4), BatchDrafts(4, 2), BatchDrafts(8, 0))
"""4 drafts for batches 1 to 3, 2 for 4 to 7, none from 8 on."""
ACCEPTED = 0.6

_NGRAM = {"decoding_type": "NGram", "max_matching_ngram_size": 3, "is_use_oldest": False, "is_public_pool": False}
_PATH = "checkpoints/draft"
_LIMIT = {"max_concurrency": 7}
_BY_TOKENS = {"acceptance_window": 32, "acceptance_length_threshold": 0.6}
_BY_RATE = {"acceptance_rate_window_size": 32 * 320, "acceptance_rate_threshold": 0.15}
"""0.6 of 4 drafts; 32 answers of 512 tokens take 512 / 1.6 = 320 calls each."""
_FROM = {1: 4, 4: 2, 8: 0}
_UP_TO = {3: 4, 7: 2}

EXPECTED: dict[str, dict[str, dict[str, Any]]] = {
    "0.21.0": {
        "model": {"decoding_type": "DraftTarget", "max_draft_len": 4, "pytorch_weights_path": _PATH},
        "ngram": _NGRAM | {"prompt_lookup_num_tokens": 4},
        "eagle3": {"decoding_type": "Eagle", "max_draft_len": 4, "pytorch_weights_path": _PATH},
        "mtp": {"decoding_type": "MTP", "num_nextn_predict_layers": 4},
    },
    "1.0.0": {
        "model": {"decoding_type": "DraftTarget", "max_draft_len": 4, "speculative_model_dir": _PATH},
        "ngram": _NGRAM | {"max_draft_len": 4},
        "eagle3": {"decoding_type": "Eagle", "max_draft_len": 4, "speculative_model_dir": _PATH},
        "mtp": {"decoding_type": "MTP", "num_nextn_predict_layers": 4},
    },
    "1.1.0": {
        "model": {"decoding_type": "DraftTarget", "max_draft_len": 4, "speculative_model_dir": _PATH} | _LIMIT,
        "ngram": _NGRAM | {"max_draft_len": 4} | _LIMIT,
        "eagle3": {"decoding_type": "Eagle", "max_draft_len": 4, "speculative_model_dir": _PATH} | _LIMIT,
        "mtp": {"decoding_type": "MTP", "num_nextn_predict_layers": 4} | _LIMIT,
    },
    "1.2.1": {
        "model": {"decoding_type": "DraftTarget", "max_draft_len": 4, "speculative_model": _PATH}
        | {"draft_len_schedule": _FROM} | _BY_TOKENS,
        "ngram": _NGRAM | {"max_draft_len": 4, "draft_len_schedule": _FROM} | _BY_TOKENS,
        "eagle3": {"decoding_type": "Eagle", "max_draft_len": 4, "speculative_model": _PATH} | _LIMIT | _BY_TOKENS,
        "mtp": {"decoding_type": "MTP", "num_nextn_predict_layers": 4} | _LIMIT | _BY_TOKENS,
    },
    "1.3.0rc29": {
        "model": {"decoding_type": "Draft_Target", "max_draft_len": 4, "speculative_model": _PATH} | _LIMIT | _BY_RATE,
        "ngram": _NGRAM | {"max_draft_len": 4} | _LIMIT | _BY_RATE,
        "suffix": {"decoding_type": "SA", "max_draft_len": 4, "enable_global_pool": True} | _LIMIT | _BY_RATE,
        "eagle3": {"decoding_type": "Eagle3", "max_draft_len": 4, "speculative_model": _PATH}
        | {"draft_len_schedule": _UP_TO} | _BY_RATE,
        "mtp": {"decoding_type": "MTP", "max_draft_len": 4, "draft_len_schedule": _UP_TO} | _BY_RATE,
        "pard": {"decoding_type": "PARD", "max_draft_len": 4, "speculative_model": _PATH, "mask_token_id": 7}
        | _LIMIT | _BY_RATE,
        "dflash": {"decoding_type": "DFlash", "max_draft_len": 4, "speculative_model": _PATH, "mask_token_id": 7}
        | _LIMIT | _BY_RATE,
        "dspark": {"decoding_type": "DSpark", "max_draft_len": 4, "speculative_model": _PATH} | _LIMIT | _BY_RATE,
    },
}  # fmt: skip
EVERYWHERE = ("0.21.0", "1.0.0", "1.1.0", "1.2.1", "1.3.0rc29")
SECOND_MODELS = {"model": EVERYWHERE[:4], "ngram": EVERYWHERE}
"""Where the overlapping scheduler is turned off."""


@pytest.fixture(autouse=True)
def _fixed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trtllm_speculation, "schedule_from_prediction", lambda *_: SCHEDULE)
    monkeypatch.setattr(trtllm_speculation, "least_accepted", lambda *_: ACCEPTED)


def planned(kind: str, version: str, flow: str = "serve") -> Plan:
    text = RECIPE.format(draft=DRAFTS[kind], version=version, flow=flow) + ("" if kind == "none" else "gamma: 4\n")
    head = kind in ("eagle3", "pard", "dflash", "dspark")
    draft = HEAD if head else StatedSource(uri="d", facts=DRAFT)
    return plan_from_recipe(recipe_from_text(text, "r.yaml"), StatedSource(uri="m", facts=TARGET), draft)


@pytest.mark.parametrize(("version", "kind"), [(v, k) for v, kinds in EXPECTED.items() for k in kinds])
def test_the_serve_flow_says_exactly_this(version: str, kind: str) -> None:
    plan = planned(kind, version)
    assert plan.backend.trtllm is not None
    options = serve_options(plan.backend.trtllm, plan.limits)
    assert options["speculative_config"] == EXPECTED[version][kind]
    assert options.get("disable_overlap_scheduler", False) == (version in SECOND_MODELS.get(kind, ()))
    assert not problems(options, version)


@pytest.mark.parametrize(("version", "kind"), [(v, k) for v in EXPECTED for k in DRAFTS if k not in EXPECTED[v]])
def test_the_serve_flow_refuses_the_rest(version: str, kind: str) -> None:
    if kind == "none":
        plan = planned(kind, version)
        assert plan.backend.trtllm is not None
        assert "speculative_config" not in serve_options(plan.backend.trtllm, plan.limits)
        return
    with pytest.raises(SpeccError) as caught:
        planned(kind, version)
    assert caught.value.code in ("SPC301", "SPC324")  # 301: of no version
    able = [other for other in EXPECTED if kind in EXPECTED[other]]
    assert (caught.value.code == "SPC324") == bool(able)
    assert all(f'"{other}"' in (caught.value.fix or "") for other in able)


@pytest.mark.parametrize("version", [*EVERYWHERE[:4], "1.3.0rc20"])
@pytest.mark.parametrize("kind", DRAFTS)
def test_the_engine_flow(version: str, kind: str) -> None:
    if kind not in ("none", "model", "ngram"):
        with pytest.raises(SpeccError) as caught:
            planned(kind, version, "engine")
        assert caught.value.code in ("SPC301", "SPC324")
        assert kind == "self" or "flow: serve" in (caught.value.fix or "")
        return
    plan = planned(kind, version, "engine")
    assert plan.backend.trtllm is not None
    commands = commands_from_plan(plan.backend.trtllm, plan.limits)
    target = " ".join(commands["build"]["target"])
    assert commands["tensorrt_llm"] == version
    assert ("--speculative_decoding_mode draft_tokens_external --max_draft_len 4" in target) == (kind != "none")
    assert ("draft" in commands["build"]) == (kind == "model")
    run = " ".join(commands["run"])
    assert ("--draft_target_model_config [4,[0],[0,1,2,3],False]" in run) == (kind == "model")
    assert ("--ngram_config [4,3,[0,1,2,3]]" in run) == (kind == "ngram")
    assert run.startswith(f"mpirun -n {4 if kind == 'none' else 1} ")  # one orchestrator where it drafts
    assert "--use_paged_context_fmha enable" in target
    assert "--kv_cache_enable_block_reuse" in run
