"""The YAML of trtllm-serve by version: the same decisions in the names and meanings of each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import yaml

from specc.backends.tensorrt_llm.engine_arguments import commands_from_plan
from specc.backends.tensorrt_llm.serve import serve_text
from specc.bundle.manifest import LimitsSpec
from specc.catalog.trtllm_versions import row_of_version
from specc.plan.trtllm_plan import BatchDrafts, TextLookup, TrtllmPlan, TrtllmSpeculation
from specc.plan.trtllm_speculation import lower_bounds, upper_bounds
from tests.published_llm_args import VERSIONS, problems
from tests.rank_files import model_plan

LIMITS = LimitsSpec(32, 1024, 512, 1536, 1024, 8, 4)
SCHEDULE = (BatchDrafts(1, 4), BatchDrafts(8, 2), BatchDrafts(16, 0))


def plan(version: str, kind: str = "model", **changes: Any) -> TrtllmPlan:
    fields = {
        "max_draft_len": 4, "lookup": None, "head": None, "taps": (), "mask_token_id": None,
        "schedule": (), "max_concurrency": None, "min_accepted": None,
        "window": 32, "judges_probabilities": False,
    } | changes  # fmt: skip
    model = model_plan(4, layout="source")
    speculation = TrtllmSpeculation(kind, **fields)  # type: ignore[arg-type]
    return TrtllmPlan("serve", version, model, model, speculation, 8192, 1537, 1545)


def options(*args: Any, **changes: Any) -> dict[str, Any]:
    planned = plan(*args, **changes)
    loaded = yaml.safe_load(serve_text(planned, LIMITS))
    assert isinstance(loaded, dict)
    assert not problems(loaded, planned.version)
    return loaded


@pytest.mark.parametrize(
    ("version", "speculative"),
    [
        ("0.21.0", {"decoding_type": "DraftTarget", "max_draft_len": 4, "pytorch_weights_path": "checkpoints/draft"}),
        ("1.0.0", {"decoding_type": "DraftTarget", "max_draft_len": 4, "speculative_model_dir": "checkpoints/draft"}),
        ("1.2.1", {"decoding_type": "DraftTarget", "max_draft_len": 4, "speculative_model": "checkpoints/draft"}),
        ("1.3.0rc29", {"decoding_type": "Draft_Target", "max_draft_len": 4, "speculative_model": "checkpoints/draft"}),
    ],
)
def test_a_draft_model(version: str, speculative: dict[str, Any]) -> None:
    found = options(version)
    assert found["speculative_config"] == speculative
    assert found.get("disable_overlap_scheduler", False) is (version != "1.3.0rc29")


@pytest.mark.parametrize(("version", "length"), [("0.21.0", "prompt_lookup_num_tokens"), ("1.2.1", "max_draft_len")])
def test_ngrams(version: str, length: str) -> None:
    found = options(version, "ngram", lookup=TextLookup(3, oldest=False, shared=True))["speculative_config"]
    assert found == {
        "decoding_type": "NGram", length: 4, "max_matching_ngram_size": 3,
        "is_use_oldest": False, "is_public_pool": True,
    }  # fmt: skip


def test_a_suffix_tree() -> None:
    found = options("1.3.0rc29", "suffix", lookup=TextLookup(None, oldest=False, shared=False))["speculative_config"]
    assert found == {"decoding_type": "SA", "max_draft_len": 4, "enable_global_pool": False}


@pytest.mark.parametrize(
    ("version", "kind", "changes", "speculative"),
    [
        ("1.2.1", "eagle3", {"head": "o/h", "taps": (1, 39, 76)},
         {"decoding_type": "Eagle", "max_draft_len": 4, "speculative_model": "o/h",
          "eagle3_layers_to_capture": [1, 39, 76]}),
        ("1.3.0rc29", "eagle3", {"head": "o/h"},
         {"decoding_type": "Eagle3", "max_draft_len": 4, "speculative_model": "o/h"}),
        ("1.2.1", "mtp", {}, {"decoding_type": "MTP", "num_nextn_predict_layers": 4}),
        ("1.3.0rc29", "mtp", {}, {"decoding_type": "MTP", "max_draft_len": 4}),
        ("1.3.0rc29", "pard", {"head": "o/h", "mask_token_id": 9},
         {"decoding_type": "PARD", "max_draft_len": 4, "speculative_model": "o/h", "mask_token_id": 9}),
        ("1.3.0rc29", "dflash", {"head": "o/h"},
         {"decoding_type": "DFlash", "max_draft_len": 4, "speculative_model": "o/h"}),
        ("1.3.0rc29", "dspark", {"head": "o/h"},
         {"decoding_type": "DSpark", "max_draft_len": 4, "speculative_model": "o/h"}),
    ],
)  # fmt: skip
def test_heads(version: str, kind: str, changes: dict[str, Any], speculative: dict[str, Any]) -> None:
    found = options(version, kind, **changes)
    assert found["speculative_config"] == speculative
    assert "disable_overlap_scheduler" not in found
    assert found["kv_cache_config"]["enable_block_reuse"]


def test_a_schedule_means_the_same_drafts_in_both_forms() -> None:
    old = options("1.2.1", schedule=SCHEDULE)["speculative_config"]["draft_len_schedule"]
    new = options("1.3.0rc29", schedule=SCHEDULE)["speculative_config"]["draft_len_schedule"]
    assert old == {1: 4, 8: 2, 16: 0}
    assert new == {7: 4, 15: 2}
    for batch in range(1, 33):
        by_lower = old[max(key for key in old if key <= batch)]
        by_upper = next((new[key] for key in sorted(new) if batch <= key), 0)
        assert by_lower == by_upper


def test_a_schedule_that_never_ends_covers_the_largest_batch() -> None:
    schedule = (BatchDrafts(1, 4), BatchDrafts(8, 2))
    assert lower_bounds(schedule) == {1: 4, 8: 2}
    assert upper_bounds(schedule, 32) == {7: 4, 32: 2}


def test_the_switch_off_counts_tokens_or_a_ratio() -> None:
    tokens = options("1.2.1", min_accepted=0.6)["speculative_config"]
    ratio = options("1.3.0rc29", min_accepted=0.6)["speculative_config"]
    assert (tokens["acceptance_window"], tokens["acceptance_length_threshold"]) == (32, 0.6)
    assert ratio["acceptance_rate_threshold"] == 0.15
    # 32 answers of 512 tokens, 1.6 a call: a window of 32 calls would end speculation for good after a bad second
    assert ratio["acceptance_rate_window_size"] == 32 * 320


@pytest.mark.parametrize("version", VERSIONS)
def test_every_drafter_of_a_version_is_written_in_its_published_fields(version: str) -> None:
    row = row_of_version(version)
    assert row is not None
    assert row.serve is not None
    everything = {"schedule": SCHEDULE, "min_accepted": 0.6}
    kinds = {
        "model": {}, "ngram": {"lookup": TextLookup(3, oldest=True, shared=True)},
        "suffix": {"lookup": TextLookup(None, oldest=False, shared=True)}, "mtp": {},
        "eagle3": {"head": "o/h", "taps": (1, 39, 76)}, "pard": {"head": "o/h", "mask_token_id": 9},
        "dflash": {"head": "o/h", "mask_token_id": 9}, "dspark": {"head": "o/h"},
    }  # fmt: skip
    for kind in row.serve.decoding_types:
        followed = everything if kind in row.serve.scheduled else {"min_accepted": 0.6}
        assert options(version, kind, **kinds[kind], **followed)
        assert options(version, kind, **kinds[kind], **({"max_concurrency": 8} if row.serve.max_concurrency else {}))


@pytest.mark.parametrize(
    ("version", "place"), [("0.21.0", None), ("1.0.0", "kv_cache_config"), ("1.3.0", "kv_cache_config")]
)
def test_fp8_caches_are_stated_where_the_version_reads_them(version: str, place: str | None) -> None:
    made = plan(version, "none")
    fp8 = replace(made, target=replace(made.target, kv_cache="fp8"), draft=None)
    found = yaml.safe_load(serve_text(fp8, LIMITS))
    if place is None:
        assert found["kv_cache_dtype"] == "fp8"
    else:
        assert found[place]["dtype"] == "fp8"
    assert not problems(found, "1.3.0rc29" if version == "1.3.0" else version)


def test_one_dtype_of_caches_holds_for_both_models_so_silence_keeps_two() -> None:
    """trtllm-serve loads a second model under the same kv_cache_config; without it each checkpoint's own stands."""
    made = plan("1.2.1")
    fp8 = replace(made.target, kv_cache="fp8", cache_stated=True)
    for target, draft, said in ((fp8, made.target, False), (made.target, fp8, False), (fp8, fp8, True)):
        found = yaml.safe_load(serve_text(replace(made, target=target, draft=draft), LIMITS))
        assert ("dtype" in found["kv_cache_config"]) is said


def test_what_a_version_lacks_is_not_written() -> None:
    assert set(options("1.0.0", min_accepted=0.6)["speculative_config"]) == {
        "decoding_type", "max_draft_len", "speculative_model_dir",
    }  # fmt: skip
    assert options("1.2.1", "none") == {
        "cuda_graph_config": {"enable_padding": True, "max_batch_size": 32},
        "kv_cache_config": {"enable_block_reuse": True, "free_gpu_memory_fraction": 0.8},
        "enable_iter_perf_stats": True,
    }


def test_graphs_cover_every_batch_in_the_fields_of_the_version() -> None:
    flat = options("0.21.0", "none")
    assert {name: value for name, value in flat.items() if "graph" in name} == {
        "use_cuda_graph": True, "cuda_graph_padding_enabled": True, "cuda_graph_max_batch_size": 32,
    }  # fmt: skip
    assert options("1.3.0rc29", "none")["cuda_graph_config"] == {"enable_padding": True, "max_batch_size": 32}


def test_the_command_stands_over_the_options() -> None:
    text = serve_text(plan("1.3.0rc29"), LIMITS)
    assert "TensorRT-LLM 1.3.0rc29" in text.splitlines()[0]
    assert "--tp_size 4 --max_batch_size 32 --max_num_tokens 8192 --max_seq_len 1537 --config deploy/" in text


def test_engines_of_a_pair_are_built_for_each_other() -> None:
    made = plan("1.2.1")
    commands = commands_from_plan(made, LIMITS)
    target, draft = (dict(zip(command[1::2], command[2::2], strict=True)) for command in commands["build"].values())
    assert (target["--speculative_decoding_mode"], target["--max_draft_len"]) == ("draft_tokens_external", "8")
    # trtllm-build adds max_draft_len to the target's length itself
    assert int(draft["--max_seq_len"]) == int(target["--max_seq_len"]) + 8
    assert int(target["--max_seq_len"]) > LIMITS.max_length
    assert target["--use_paged_context_fmha"] == draft["--use_paged_context_fmha"] == "enable"
    assert commands["run"][-3:-2] == ["[4,[0,1,2,3],[0,1,2,3],False]"]
