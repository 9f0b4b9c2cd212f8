"""What trtllm-serve tells of itself, written down from its published source: names, kinds and labels, no text of it."""

from __future__ import annotations

from typing import Any, Final

PROMETHEUS: Final = {
    "source": "tensorrt_llm/metrics/collector.py at 050f80de, on the way from 1.3.0rc27 to rc29; the prefix is trtllm_",
    "counters": {
        "spec_decode_num_draft_tokens_total": (),
        "spec_decode_num_accepted_tokens_total": (),
        "spec_decode_drafted_tokens_total": ("token_position",),
        "spec_decode_accepted_tokens_total": ("token_position",),
        "request_success_total": ("finished_reason",),
        "request_error_total": ("http_code",),
        "generation_tokens_total": (),
    },
    "gauges": {
        "spec_decode_acceptance_length": (),
        "spec_decode_draft_overhead": (),
        "num_requests_running": (),
        "num_requests_waiting": (),
        "kv_cache_utilization": (),
    },
    "histograms": {
        "e2e_request_latency_seconds": (),
        "time_to_first_token_seconds": (),
    },
}
"""With `return_perf_metrics`, at /prometheus/metrics; every series has `model_name` and `engine_type`, too."""
ITERATION: Final[dict[str, Any]] = {
    "iter": 7,
    "iterLatencyMS": 20.0,
    "numActiveRequests": 3,
    "numQueuedRequests": 2,
    "kvCacheStats": {"maxNumBlocks": 100, "usedNumBlocks": 40, "freeNumBlocks": 60, "tokensPerBlock": 32},
    "specDecodingStats": {
        "numDraftTokens": 12,
        "numAcceptedTokens": 8,
        "numRequestsWithDraftTokens": 3,
        "acceptanceLength": 11 / 3,
        "iterLatencyMS": 5.0,
        "draftOverhead": 0.25,
    },
}
"""One element of the list that /metrics answers with `enable_iter_perf_stats`: `IterationStats` of cpp/include/
tensorrt_llm/executor/types.h as JSON. Its `acceptanceLength` is (accepted + requests) / requests."""


def prometheus_names() -> set[str]:
    """Return every name that a query may ask 1.3 for."""
    histograms = [f"{name}_{part}" for name in PROMETHEUS["histograms"] for part in ("bucket", "sum", "count")]
    return {f"trtllm_{name}" for name in [*PROMETHEUS["counters"], *PROMETHEUS["gauges"], *histograms]}
