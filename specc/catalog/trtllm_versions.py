"""TensorRT-LLM by version: which flow it has, and by which names and meanings it reads speculation.

A version that no row holds is refused, release candidates of 1.0 to 1.2 among them: fields were renamed between them,
and `draft_len_schedule` changed its meaning without changing its name. Read in the source of `llmapi/llm_args.py` of
each version; nothing of TensorRT-LLM was run.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

Flow: TypeAlias = Literal["serve", "engine"]
Order: TypeAlias = tuple[int, int, int, int]

DEFAULT_VERSION: Final = "1.2.1"
RELEASE: Final = 10**6
VERSION: Final = re.compile(r"(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?(?:(a|b|rc)(\d{1,4}))?", re.ASCII)


@dataclass(frozen=True)
class SwitchOff:
    """How speculation is switched off for good when too few drafts are accepted.

    Attributes:
        window: field of the number of samples that are averaged.
        threshold: field of the limit.
        unit: `tokens` accepted a step, or `ratio` of the drafted ones.
        sample: a finished `request`, or one `call` of the target that had drafts.
    """

    window: str
    threshold: str
    unit: Literal["tokens", "ratio"]
    sample: Literal["request", "call"]


@dataclass(frozen=True)
class SpeculativeFields:
    """How one version's PyTorch back end reads speculation, and the caches beside it.

    Attributes:
        decoding_types: our kind of drafter to the value of `decoding_type`; a kind that is absent is refused.
        draft_path: field of the draft's checkpoint.
        lengths: field of the number of drafts where it is not `max_draft_len`, by kind.
        drafts_separately: kinds that run as a second model, which the overlapping scheduler cannot serve.
        max_concurrency: whether there is such a field.
        schedule: what the keys of `draft_len_schedule` are: the smallest batch of an entry, or the largest.
        scheduled: kinds whose number of drafts follows it.
        switch_off: None where there is none.
        draft_by_id: whether a head may be named by its hub id; elsewhere it must be a folder of the server's.
        rejection_sampling: field that turns on rejection sampling; None where drafts are only compared.
        taps: whether EAGLE-3 may be told which layers its head reads.
        cache_dtype: field of the caches' dtype, with the section that holds it.
        cuda_graphs: how CUDA graphs are asked for: a section `cuda_graph_config`, or fields of their own.
        config_flag: option of trtllm-serve that takes the YAML.
        metrics: what tells how drafts fare: `iterations`, JSON at /metrics that tells each one once, or `prometheus`,
            counters at /prometheus/metrics, which appear with `return_perf_metrics`.
    """

    decoding_types: dict[str, str]
    draft_path: str
    lengths: dict[str, str]
    drafts_separately: tuple[str, ...]
    max_concurrency: bool
    schedule: Literal["none", "lower bounds", "upper bounds"]
    scheduled: tuple[str, ...]
    switch_off: SwitchOff | None
    rejection_sampling: str | None
    taps: bool = True
    cache_dtype: str = "kv_cache_config.dtype"
    draft_by_id: bool = False
    cuda_graphs: Literal["section", "flat"] = "section"
    config_flag: str = "--extra_llm_api_options"
    metrics: Literal["iterations", "prometheus"] = "iterations"


@dataclass(frozen=True)
class TrtllmVersionRow:
    """A range of versions that read the same files in the same way.

    Attributes:
        name: of the range, for people.
        first: the earliest version of it.
        end: the first version behind it.
        engine_flow: it has trtllm-build and the runtime of engines.
        serve: how its PyTorch back end reads speculation; None: not known well enough to write for it.
        source: where the facts were read.
    """

    name: str
    first: str
    end: str
    engine_flow: bool
    serve: SpeculativeFields | None
    source: str


_TABLE: Final = {"model": "DraftTarget", "ngram": "NGram", "eagle3": "Eagle", "mtp": "MTP"}
_MTP: Final = {"mtp": "num_nextn_predict_layers"}
_TWO_MODELS: Final = ("model", "ngram")

VERSIONS: Final[tuple[TrtllmVersionRow, ...]] = (
    TrtllmVersionRow(
        name="0.21",
        first="0.21.0",
        end="1.0.0a0",
        engine_flow=True,
        serve=SpeculativeFields(
            decoding_types=_TABLE,
            draft_path="pytorch_weights_path",
            lengths={**_MTP, "ngram": "prompt_lookup_num_tokens"},
            drafts_separately=_TWO_MODELS,
            max_concurrency=False,
            schedule="none",
            scheduled=(),
            switch_off=None,
            rejection_sampling=None,
            taps=False,
            cache_dtype="kv_cache_dtype",
            cuda_graphs="flat",
        ),
        source="0.21.0: six names; DraftTarget and Eagle read pytorch_weights_path; sections ignore unknown keys",
    ),
    TrtllmVersionRow(
        name="1.0",
        first="1.0.0",
        end="1.1.0a0",
        engine_flow=True,
        serve=SpeculativeFields(
            decoding_types=_TABLE,
            draft_path="speculative_model_dir",
            lengths=_MTP,
            drafts_separately=_TWO_MODELS,
            max_concurrency=False,
            schedule="none",
            scheduled=(),
            switch_off=None,
            rejection_sampling=None,
            taps=False,
        ),
        source="1.0.0: eight names; strict models; n-grams read max_draft_len",
    ),
    TrtllmVersionRow(
        name="1.1",
        first="1.1.0",
        end="1.2.0a0",
        engine_flow=True,
        serve=SpeculativeFields(
            decoding_types=_TABLE,
            draft_path="speculative_model_dir",
            lengths=_MTP,
            drafts_separately=_TWO_MODELS,
            max_concurrency=True,
            schedule="none",
            scheduled=(),
            switch_off=None,
            rejection_sampling=None,
        ),
        source="1.1.0: eight names; no acceptance_window yet",
    ),
    TrtllmVersionRow(
        name="1.2",
        first="1.2.0",
        end="1.3.0a0",
        engine_flow=True,
        serve=SpeculativeFields(
            decoding_types=_TABLE,
            draft_path="speculative_model",
            lengths=_MTP,
            drafts_separately=_TWO_MODELS,
            max_concurrency=True,
            schedule="lower bounds",
            scheduled=_TWO_MODELS,
            switch_off=SwitchOff("acceptance_window", "acceptance_length_threshold", "tokens", "request"),
            rejection_sampling=None,
            draft_by_id=True,
        ),
        source="1.2.1: nine names, SaveState among them; {1: 4, 4: 2, 8: 0} drafts 2 from batch 4 on",
    ),
    TrtllmVersionRow(
        name="1.3 candidates with engines",
        first="1.3.0rc0",
        end="1.3.0rc21",
        engine_flow=True,
        serve=None,
        source="trtllm-build warns that it is deprecated; in which candidate which field changed is not recorded",
    ),
    TrtllmVersionRow(
        name="1.3 candidates without engines",
        first="1.3.0rc21",
        end="1.3.0rc29",
        engine_flow=False,
        serve=None,
        source="trtllm-build is gone; in which candidate which field changed is not recorded",
    ),
    TrtllmVersionRow(
        name="1.3",
        first="1.3.0rc29",
        end="1.4.0a0",
        engine_flow=False,
        serve=SpeculativeFields(
            decoding_types={
                "model": "Draft_Target",
                "ngram": "NGram",
                "suffix": "SA",
                "eagle3": "Eagle3",
                "mtp": "MTP",
                "pard": "PARD",
                "dflash": "DFlash",
                "dspark": "DSpark",
            },
            draft_path="speculative_model",
            lengths={},
            drafts_separately=("ngram",),
            max_concurrency=True,
            schedule="upper bounds",
            scheduled=("eagle3", "mtp"),
            switch_off=SwitchOff("acceptance_rate_window_size", "acceptance_rate_threshold", "ratio", "call"),
            rejection_sampling="use_rejection_sampling",
            draft_by_id=True,
            config_flag="--config",
            metrics="prometheus",
        ),
        source="1.3.0rc29: a union told apart by its literals; {4: 4, 8: 2} drafts 2 from batch 5 to 8, 0 beyond",
    ),
)

REMOVED: Final = "1.3.0rc21"
"""The first version without trtllm-build, its model classes and the runtime of engines."""


def version_order(version: str) -> Order | None:
    """Return a version as numbers that order like versions do, a release behind its candidates; None: no version."""
    found = VERSION.fullmatch(version)
    if found is None:
        return None
    major, minor, micro, stage, number = found.groups()
    rank = RELEASE if stage is None else int(number) if stage == "rc" else -1
    return int(major), int(minor), int(micro or 0), rank


def engines_removed(version: str) -> bool:
    """Return whether a version is at or past the one that removed trtllm-build, known here or not."""
    order = version_order(version)
    return order is not None and order >= _order(REMOVED)


def row_of_version(version: str) -> TrtllmVersionRow | None:
    """Return the row that holds a version; None where none does, or where it is no version."""
    order = version_order(version)
    if order is None:
        return None
    return next((row for row in VERSIONS if _order(row.first) <= order < _order(row.end)), None)


def nearest_served(version: str) -> str:
    """Return the version whose serve flow specc knows: this one, else the next one that it knows, else the newest."""
    order = version_order(version)
    served = [row for row in VERSIONS if row.serve is not None]
    if order is None or any(_order(row.first) <= order < _order(row.end) for row in served):
        return DEFAULT_VERSION if order is None else version
    return next((row.first for row in served if _order(row.first) > order), served[-1].first)


def serve_text(version: str) -> str:
    """Return what a recipe of that version writes to be served, as `flow: serve with version: "1.3.0rc29"`."""
    served = nearest_served(version)
    return "flow: serve" if served == version else f'flow: serve with version: "{served}"'


def known_versions(flow: Flow) -> str:
    """Return the versions that a flow is written for, in words."""
    rows = [row for row in VERSIONS if (row.engine_flow if flow == "engine" else row.serve is not None)]
    return ", ".join(f"{row.first} to below {row.end.removesuffix('a0')}" for row in rows)


def _order(version: str) -> Order:
    order = version_order(version)
    assert order is not None, version
    return order
