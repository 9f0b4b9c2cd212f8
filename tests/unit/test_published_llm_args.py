"""The table of published fields itself: every entry is well formed, and what is wrong is found."""

from __future__ import annotations

from typing import Any

import pytest

from specc.catalog.trtllm_versions import VERSIONS as ROWS
from tests.published_llm_args import LEAF, VERSIONS, accepts, problems, published, speculative_fields


@pytest.mark.parametrize("version", VERSIONS)
def test_every_type_is_known_and_takes_its_default(version: str) -> None:
    facts = published(version)
    assert facts["sources"]
    assert all(commit for commit in facts["sources"].values())
    classes = (facts["top"], *facts["classes"].values())
    assert all(entry["complete"] for entry in classes)
    for fields in (entry["fields"] for entry in classes):
        for name, field in fields.items():
            kinds = field["type"].split(", g")[0].split(", l")[0].split(" | ")
            assert all(kind in LEAF or kind.startswith("'") or kind in facts["classes"] for kind in kinds), name
            assert "default" not in field or accepts(field["type"], field["default"]), name


def test_every_row_that_is_written_for_has_a_table() -> None:
    assert [row.first for row in ROWS if row.serve is not None] == ["0.21.0", "1.0.0", "1.1.0", "1.2.0", "1.3.0rc29"]
    assert len(VERSIONS) == 5


@pytest.mark.parametrize("row", [row for row in ROWS if row.serve is not None], ids=lambda row: row.name)
def test_the_rows_name_published_fields(row: Any) -> None:
    version = next(version for version in VERSIONS if version.startswith(row.name.removesuffix(" ")))
    facts, fields = published(version), row.serve
    assert set(fields.decoding_types.values()) <= set(facts["decoding_types"])
    for kind, decoding_type in fields.decoding_types.items():
        known = speculative_fields(facts, decoding_type)
        assert fields.lengths.get(kind, "max_draft_len") in known
        assert kind in ("ngram", "suffix", "mtp") or fields.draft_path in known
        assert fields.max_concurrency == ("max_concurrency" in known)
        assert (fields.schedule != "none") == ("draft_len_schedule" in known)
        if fields.switch_off is not None:
            assert {fields.switch_off.window, fields.switch_off.threshold} <= set(known)
        assert fields.rejection_sampling is None or fields.rejection_sampling in known
    if "eagle3" in fields.decoding_types:
        eagle3 = speculative_fields(facts, fields.decoding_types["eagle3"])
        assert fields.taps == ("eagle3_layers_to_capture" in eagle3)
    top, _, nested = fields.cache_dtype.partition(".")
    kind = facts["top"]["fields"][top]["type"]
    assert (nested in facts["classes"][kind]["fields"]) if nested else kind == "str"


MODEL = {"decoding_type": "DraftTarget", "max_draft_len": 4, "speculative_model": "checkpoints/draft"}


@pytest.mark.parametrize(
    ("version", "options", "found"),
    [
        ("1.2.1", {"speculative_config": MODEL}, ""),
        ("1.2.1", {"specualtive_config": MODEL}, "specualtive_config: no such field"),
        ("1.1.0", {"speculative_config": MODEL}, "speculative_config.speculative_model: no such field"),
        ("1.3.0rc29", {"speculative_config": MODEL}, "'DraftTarget' is none of Draft_Target"),
        ("1.2.1", {"speculative_config": MODEL | {"max_draft_len": "4"}}, "'4' is no int | null"),
        ("1.2.1", {"speculative_config": MODEL | {"max_draft_len": True}}, "True is no int | null"),
        ("1.2.1", {"speculative_config": MODEL | {"draft_len_schedule": {4: 4}}}, "draft_len_schedule: {4: 4}"),
        ("1.2.1", {"speculative_config": MODEL | {"acceptance_window": -1}}, "-1 is no int | null, ge=0"),
        ("1.2.1", {"speculative_config": {"decoding_type": "Eagle", "max_draft_len": 4}}, "a model that is not named"),
        ("0.21.0", {"kv_cache_config": {"dtype": "fp8"}}, "kv_cache_config.dtype: no such field"),
        ("0.21.0", {"kv_cache_dtype": "fp8"}, ""),
        ("0.21.0", {"cuda_graph_config": {"max_batch_size": 8}}, "cuda_graph_config: no such field"),
        ("1.0.0", {"return_perf_metrics": True}, "return_perf_metrics: no such field"),
        ("1.1.0", {"enable_trtllm_sampler": True}, "enable_trtllm_sampler: no such field"),
        ("1.2.1", {"build_config": {}}, "build_config: no such field"),
        ("1.2.1", {"num_serve_frontends": 2}, "num_serve_frontends: no such field"),
        ("1.3.0rc29", {"num_serve_frontends": 2}, ""),
        ("1.3.0rc29", {"perf_metrics_max_requests": 8}, "perf_metrics_max_requests: no such field"),
        ("1.3.0rc29", {"kv_cache_config": {"max_util_for_resume": 1.5}}, "1.5 is no float, gt=0, le=1"),
        ("1.3.0rc29", {"kv_cache_config": {"block_size": 32}}, "kv_cache_config.block_size: no such field"),
        ("1.3.0rc29", {"moe_config": []}, "moe_config: [] is no mapping"),
        ("1.0.0", {"use_cuda_graph": True}, "use_cuda_graph: no such field"),
        ("1.2.1", {"cuda_graph_config": {"padding": True}}, "cuda_graph_config.padding: no such field"),
        ("1.0.0", {"kv_cache_dtype": "fp8"}, "kv_cache_dtype: no such field"),
        ("1.2.1", {"kv_cache_config": {"free_gpu_memory_fraction": 1.5}}, "1.5 is no float | null, ge=0, le=1"),
    ],
)
def test_what_a_version_would_refuse_or_ignore_is_found(version: str, options: dict[str, Any], found: str) -> None:
    said = problems(options, version)
    assert (not said) if not found else any(found in line for line in said), said
