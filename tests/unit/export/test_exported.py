"""Exports to other servers: their own names, the plan's numbers, and every choice that is lost, by name."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest
import yaml

from specc.catalog.servers import FEATURES, SERVERS
from specc.errors import SpeccError
from specc.export.exported import Export, exported_from_pair, server_from_name
from specc.export.lost import wanted_features
from specc.plan.trtllm_plan import BatchDrafts
from tests.exported_pairs import exported_pair
from tests.published_llm_args import VERSIONS, problems

SCHEDULE = (BatchDrafts(1, 4), BatchDrafts(8, 2), BatchDrafts(16, 0))
MODEL_FLAGS = ("--spec-draft-model", "--spec-draft-n-max")


def exported(to: str, *overrides: str, **changes: Any) -> Export:
    return exported_from_pair(exported_pair(*overrides, **changes), server_from_name(to))


def flags(export: Export) -> dict[str, str]:
    words = shlex.split(export.text)
    return {word: value for word, value in zip(words, [*words[1:], ""], strict=True) if word.startswith("--")}


def vllm(*overrides: str, **changes: Any) -> dict[str, Any]:
    return json.loads(flags(exported("vllm", *overrides, **changes))["--speculative-config"])


def names(export: Export) -> set[str]:
    return {sentence.split(":")[0] for sentence in export.lost}


def test_vllm_takes_each_drafter() -> None:
    assert vllm() == {"method": "draft_model", "num_speculative_tokens": 4, "model": "org/draft"}
    assert vllm("draft={kind: ngram, min_ngram: 2, max_ngram: 5}") == {
        "method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_min": 2, "prompt_lookup_max": 5,
    }  # fmt: skip
    suffix = vllm("draft={kind: suffix, max_depth: 32, scope: request}")
    assert (suffix["method"], suffix["suffix_decoding_max_tree_depth"]) == ("suffix", 32)
    assert suffix["suffix_decoding_max_cached_requests"] == 0
    assert vllm("draft={kind: eagle3, model: org/head}")["method"] == "eagle3"


def test_vllm_takes_the_schedule_and_the_acceptance() -> None:
    assert vllm(schedule=SCHEDULE)["num_speculative_tokens_per_batch_size"] == [[1, 7, 4], [8, 15, 2], [16, 32, 0]]
    assert vllm("acceptance=rejection")["draft_sample_method"] == "probabilistic"
    assert vllm("acceptance=block")["rejection_sample_method"] == "block"


def test_vllm_loses_what_it_lacks() -> None:
    export = exported("vllm", "runtime.routing.min_new_tokens=64", "numerics=invariant", schedule=SCHEDULE)
    assert names(export) == {"coupled", "switch-off", "return", "routing", "invariant"}
    assert names(exported("vllm", "acceptance=greedy", "runtime.fallback.min_speedup=0")) == set()


def test_sglang_counts_the_anchor() -> None:
    found = flags(exported("sglang"))
    assert found["--speculative-algorithm"] == "STANDALONE"
    assert (found["--speculative-num-steps"], found["--speculative-num-draft-tokens"]) == ("4", "5")
    assert (found["--speculative-eagle-topk"], found["--tp-size"]) == ("1", "2")
    found = flags(exported("sglang", "draft={kind: ngram, min_ngram: 2, max_ngram: 5}"))
    assert found["--speculative-ngram-max-match-window-size"] == "5"
    assert "no sharing" in names(exported("sglang", "draft=ngram"))


def test_llamacpp_takes_gguf_files() -> None:
    files = ("target.model=t.gguf", "draft={kind: model, model: d.gguf}")
    found = flags(exported("llamacpp", *files))
    assert (found["--spec-type"], found["--ctx-size"]) == ("draft-simple", str(32 * 1536))
    assert [found[flag] for flag in MODEL_FLAGS] == ["d.gguf", "4"]
    assert flags(exported("llamacpp", *files, "acceptance=rejection"))["--spec-draft-sampling"] == "probabilistic"
    found = flags(exported("llamacpp", "target.model=t.gguf", "draft={kind: ngram, max_ngram: 3}"))
    assert (found["--spec-ngram-simple-size-n"], found["--spec-ngram-simple-size-m"]) == ("3", "4")
    assert "schedule" in names(exported("llamacpp", *files, schedule=SCHEDULE))


@pytest.mark.parametrize(
    ("version", "expected", "lost"),
    [
        ("1.1.0", {"speculative_model_dir": "org/draft", "max_concurrency": 15}, {"switch-off", "metrics"}),
        ("1.2.1", {"speculative_model": "org/draft", "draft_len_schedule": {1: 4, 8: 2, 16: 0}}, {"metrics"}),
        ("1.3.0rc29", {"decoding_type": "Draft_Target", "max_concurrency": 15}, set()),
    ],
)
def test_trtllm_follows_the_version(version: str, expected: dict[str, Any], lost: set[str]) -> None:
    export = exported("trtllm", f'backend={{name: tensorrt-llm, version: "{version}"}}', schedule=SCHEDULE)
    assert expected.items() <= yaml.safe_load(export.text)["speculative_config"].items()
    assert names(export) == {"coupled", "return"} | lost


HEAD = 'backend={name: tensorrt-llm, version: "1.3.0rc29"}'


def test_heads_are_named_as_each_server_names_them() -> None:
    pard = (HEAD, "draft={kind: pard, model: org/head, mask_token_id: 9}")
    assert vllm(*pard) == {
        "method": "draft_model", "num_speculative_tokens": 4, "model": "org/head", "parallel_drafting": True,
    }  # fmt: skip
    assert "mask token" in names(exported("vllm", *pard))
    options = yaml.safe_load(exported("trtllm", *pard).text)["speculative_config"]
    assert (options["decoding_type"], options["speculative_model"], options["mask_token_id"]) == ("PARD", "org/head", 9)
    mtp = (HEAD, "draft={kind: mtp}")
    assert vllm(*mtp) == {"method": "mtp", "num_speculative_tokens": 4}
    found = flags(exported("sglang", *mtp))
    assert (found["--speculative-algorithm"], found["--speculative-num-steps"]) == ("NEXTN", "4")
    found = flags(exported("llamacpp", *mtp, "target.model=t.gguf"))
    assert (found["--spec-type"], found["--spec-draft-n-max"]) == ("draft-mtp", "4")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "kind", ["model, model: org/draft", "ngram", "mtp", "eagle3, model: org/head, taps: [1, 2, 3]"]
)
def test_trtllm_is_written_in_published_fields(version: str, kind: str) -> None:
    pair = (f'backend={{name: tensorrt-llm, version: "{version}"}}', f"draft={{kind: {kind}}}")
    export = exported("trtllm", *pair, schedule=SCHEDULE)
    assert not problems(yaml.safe_load(export.text), version)
    assert ("taps" in names(export)) == ("taps" in kind and version < "1.1")


def test_trtllm_runs_a_second_model_without_overlap() -> None:
    assert yaml.safe_load(exported("trtllm").text)["disable_overlap_scheduler"] is True
    late = exported("trtllm", 'backend={name: tensorrt-llm, version: "1.3.0rc29"}')
    assert set(yaml.safe_load(late.text)) == {"speculative_config"}


def test_revisions_and_schemes_are_kept_or_named() -> None:
    pinned = ("target={model: org/target, revision: v1}", "draft={kind: model, model: org/draft, revision: v2}")
    assert flags(exported("vllm", *pinned))["--revision"] == "v1"
    assert vllm(*pinned)["revision"] == "v2"
    assert flags(exported("sglang", *pinned))["--speculative-draft-model-revision"] == "v2"
    assert "revision" in names(exported("trtllm", *pinned))
    assert "scheme" in names(exported("vllm", "target.scheme=w4a16"))
    assert "caches" in names(exported("sglang", "target.kv_cache=fp8"))


@pytest.mark.parametrize("to", ["vllm", "sglang", "trtllm"])
def test_without_drafts_nothing_is_configured_and_nothing_lost(to: str) -> None:
    export = exported(to, "draft=none", drafts=0)
    assert "specul" not in export.text
    assert export.lost == ()


def test_whatever_a_recipe_can_lose_has_words_and_a_row() -> None:
    everything = wanted_features(
        exported_pair("runtime.routing.min_new_tokens=64", "numerics=invariant", schedule=SCHEDULE)
    )
    everything |= wanted_features(exported_pair("draft={kind: ngram, min_ngram: 2, match: leftmost, scope: session}"))
    everything |= wanted_features(exported_pair("draft=ngram", "acceptance=rejection"))
    everything |= wanted_features(exported_pair("acceptance=block", "target.scheme=w8a16", "target.revision=v1"))
    everything |= wanted_features(exported_pair("target.kv_cache=fp8"))
    everything |= wanted_features(exported_pair("draft={kind: eagle3, model: org/head, taps: [1, 2]}"))
    everything |= wanted_features(exported_pair(HEAD, "draft={kind: pard, model: org/head, mask_token_id: 9}"))
    assert everything == set(FEATURES)
    for row in SERVERS.values():
        assert set(row.features) <= set(FEATURES)


def test_unknown_servers_list_the_known_ones() -> None:
    with pytest.raises(SpeccError) as caught:
        server_from_name("tgi")
    error = caught.value
    assert (error.code, error.place) == ("SPC901", "--to")
    assert error.why == "known are vllm, sglang, trtllm, llamacpp"
