"""Other servers that speculate: by which names, and which of a recipe's choices they have. Nothing of them was run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

ServerName: TypeAlias = Literal["vllm", "sglang", "trtllm", "llamacpp"]
WeightFiles: TypeAlias = Literal["Hugging Face", "GGUF"]

FEATURES: Final[dict[str, str]] = {
    "coupled": "the text of plain decoding for a seed, also when it is sampled",
    "rejection": "drafts are sampled and pass with min(1, p/q)",
    "block": "drafts are verified as a block",
    "schedule": "fewer drafts for larger batches",
    "switch-off": "speculation ends where too few drafts are accepted",
    "return": "speculation comes back after a fallback",
    "routing": "requests choose, or are chosen by their length",
    "min n-gram": "the shortest n-gram that is looked up",
    "shared text": "drafts from other requests' text",
    "no sharing": "drafts from the request's own text alone",
    "leftmost": "the first occurrence of an n-gram is copied",
    "invariant": "a token's logits do not depend on what else a call computes",
    "taps": "the layers that a head reads, as the recipe states them",
    "mask token": "the token of what is not drafted yet, as the recipe states it",
    "caches": "the dtype of keys and values as the recipe states it; the server's own choice stands",
    "scheme": "weights quantized by the recipe; the servers take checkpoints as they are stored",
    "revision": "the pinned revision of a model on the hub",
    "metrics": "drafted and accepted tokens, or their ratio, as Prometheus metrics",
}
"""Choices of a recipe that a server may lack, in words."""


@dataclass(frozen=True)
class ServerRow:
    """One server.

    Attributes:
        name: as `specc export --to` takes it.
        title: for people.
        kinds: our kind of drafter to its own name; a kind that is absent is refused.
        features: keys of `FEATURES` to how the server does it; what is absent is lost.
        weights: files of models that it loads.
        source: what was read, with its revision.
    """

    name: ServerName
    title: str
    kinds: dict[str, str]
    features: dict[str, str]
    weights: WeightFiles
    source: str


SERVERS: Final[dict[str, ServerRow]] = {
    "vllm": ServerRow(
        name="vllm",
        title="vLLM",
        kinds={
            "model": "draft_model",
            "ngram": "ngram",
            "suffix": "suffix",
            "eagle3": "eagle3",
            "mtp": "mtp",
            "pard": "draft_model",
            "dflash": "dflash",
            "dspark": "dspark",
        },
        features={
            "rejection": "draft_sample_method probabilistic",
            "block": "rejection_sample_method block",
            "schedule": "num_speculative_tokens_per_batch_size",
            "min n-gram": "prompt_lookup_min",
            "no sharing": "n-grams of the request; suffix_decoding_max_cached_requests 0",
            "shared text": "suffix decoding",
            "revision": "--revision, and revision of the draft",
            "metrics": "vllm:spec_decode_num_accepted_tokens and its like",
        },
        weights="Hugging Face",
        source="vllm/config/speculative.py at 002e77c1",
    ),
    "sglang": ServerRow(
        name="sglang",
        title="SGLang",
        kinds={"model": "STANDALONE", "ngram": "NGRAM", "eagle3": "EAGLE3", "mtp": "NEXTN"},
        features={
            "min n-gram": "--speculative-ngram-min-match-window-size",
            "shared text": "the n-gram cache is the server's",
            "revision": "--revision and --speculative-draft-model-revision",
            "metrics": "sglang:spec_accept_length, with --enable-metrics",
        },
        weights="Hugging Face",
        source="docs/advanced_features/speculative_decoding.md at 067ad4d3",
    ),
    "trtllm": ServerRow(
        name="trtllm",
        title="TensorRT-LLM, trtllm-serve",
        kinds={
            "model": "DraftTarget",
            "ngram": "NGram",
            "suffix": "SA",
            "eagle3": "Eagle3",
            "mtp": "MTP",
            "pard": "PARD",
            "dflash": "DFlash",
            "dspark": "DSpark",
        },
        features={
            "rejection": "use_rejection_sampling, from 1.3 on",
            "schedule": "draft_len_schedule or max_concurrency, from 1.1 on",
            "switch-off": "acceptance_window or acceptance_rate_threshold, from 1.2 on",
            "taps": "eagle3_layers_to_capture, from 1.1 on",
            "mask token": "mask_token_id",
            "shared text": "is_public_pool or enable_global_pool true",
            "no sharing": "is_public_pool or enable_global_pool false",
            "leftmost": "is_use_oldest true",
            "metrics": "trtllm_spec_decode_num_accepted_tokens_total, in 1.3",
        },
        weights="Hugging Face",
        source="llmapi/llm_args.py by version (docs/tensorrt-llm.md); metrics/collector.py at 050f80de",
    ),
    "llamacpp": ServerRow(
        name="llamacpp",
        title="llama.cpp, llama-server",
        kinds={
            "model": "draft-simple",
            "ngram": "ngram-simple",
            "eagle3": "draft-eagle3",
            "mtp": "draft-mtp",
            "dflash": "draft-dflash",
            "dspark": "draft-dspark",
        },
        features={
            "rejection": "--spec-draft-sampling probabilistic",
            "no sharing": "ngram-simple looks into the request alone",
        },
        weights="GGUF",
        source="tools/server/README.md at 00dc8057",
    ),
}
