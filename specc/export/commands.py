"""The command lines of vLLM, SGLang and llama-server for a pair."""

from __future__ import annotations

import json
from typing import Any

from specc.catalog.servers import SERVERS
from specc.export.pair import ExportedPair
from specc.recipe.models import ModelChoice, NgramDraft, SuffixDraft


def vllm_command(pair: ExportedPair) -> list[str]:
    """Return `vllm serve` with `--speculative-config`."""
    command = ["vllm", "serve", pair.target, "--tensor-parallel-size", str(pair.recipe.gpu.count)]
    command += ["--max-num-seqs", str(pair.limits.max_batch), "--max-model-len", str(pair.limits.max_length)]
    command += [] if pair.recipe.target.revision is None else ["--revision", pair.recipe.target.revision]
    if pair.drafts:
        command += ["--speculative-config", json.dumps(vllm_options(pair))]
    return command


def vllm_options(pair: ExportedPair) -> dict[str, Any]:
    """Return vLLM's speculative configuration."""
    draft = pair.recipe.draft
    options: dict[str, Any] = {"method": SERVERS["vllm"].kinds[draft.kind], "num_speculative_tokens": pair.drafts}
    if pair.draft is not None:
        options["model"] = pair.draft
    if isinstance(draft, ModelChoice) and draft.revision is not None:
        options["revision"] = draft.revision
    if draft.kind == "pard":
        options["parallel_drafting"] = True
    if isinstance(draft, NgramDraft):
        options |= {"prompt_lookup_min": draft.min_ngram, "prompt_lookup_max": draft.max_ngram}
    if isinstance(draft, SuffixDraft):
        options |= {
            "suffix_decoding_max_tree_depth": draft.max_depth,
            "suffix_decoding_max_spec_factor": draft.factor,
            "suffix_decoding_min_token_prob": draft.min_token_prob,
        }
        options |= {"suffix_decoding_max_cached_requests": 0} if draft.scope == "request" else {}
    if pair.recipe.acceptance in ("rejection", "block") and pair.draft is not None:
        options["draft_sample_method"] = "probabilistic"
    if pair.recipe.acceptance == "block":
        options["rejection_sample_method"] = "block"
    if len(pair.schedule) > 1:
        ends = [entry.batch - 1 for entry in pair.schedule[1:]] + [pair.limits.max_batch]
        options["num_speculative_tokens_per_batch_size"] = [
            [entry.batch, end, entry.drafts] for entry, end in zip(pair.schedule, ends, strict=True)
        ]
    return options


def sglang_command(pair: ExportedPair) -> list[str]:
    """Return `sglang.launch_server` with its speculative flags; drafts are a chain, and its count holds the anchor."""
    draft = pair.recipe.draft
    command = ["python3", "-m", "sglang.launch_server", "--model-path", pair.target]
    command += ["--tp-size", str(pair.recipe.gpu.count), "--max-running-requests", str(pair.limits.max_batch)]
    command += ["--context-length", str(pair.limits.max_length)]
    command += [] if pair.recipe.target.revision is None else ["--revision", pair.recipe.target.revision]
    if not pair.drafts:
        return command
    command += ["--speculative-algorithm", SERVERS["sglang"].kinds[draft.kind]]
    if pair.draft is not None:
        command += ["--speculative-draft-model-path", pair.draft]
        if isinstance(draft, ModelChoice) and draft.revision is not None:
            command += ["--speculative-draft-model-revision", draft.revision]
    if not isinstance(draft, NgramDraft):
        command += ["--speculative-num-steps", str(pair.drafts), "--speculative-eagle-topk", "1"]
    if isinstance(draft, NgramDraft):
        command += ["--speculative-ngram-min-match-window-size", str(draft.min_ngram)]
        command += ["--speculative-ngram-max-match-window-size", str(draft.max_ngram)]
        command += ["--speculative-ngram-max-bfs-breadth", "1"]
    return [*command, "--speculative-num-draft-tokens", str(pair.drafts + 1)]


def llamacpp_command(pair: ExportedPair) -> list[str]:
    """Return `llama-server` with its speculative flags."""
    draft = pair.recipe.draft
    slots = pair.limits.max_batch
    command = ["llama-server", "--model", pair.target, "--parallel", str(slots)]
    command += ["--ctx-size", str(slots * pair.limits.max_length)]
    if not pair.drafts:
        return command
    command += ["--spec-type", SERVERS["llamacpp"].kinds[draft.kind]]
    if isinstance(draft, NgramDraft):
        size = ["--spec-ngram-simple-size-n", str(draft.max_ngram), "--spec-ngram-simple-size-m", str(pair.drafts)]
        return [*command, *size]
    if pair.draft is not None:
        command += ["--spec-draft-model", pair.draft]
    command += ["--spec-draft-n-max", str(pair.drafts)]
    if pair.recipe.acceptance in ("rejection", "block"):
        command += ["--spec-draft-sampling", "probabilistic"]
    return command
