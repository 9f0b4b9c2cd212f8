"""The YAML of trtllm-serve, with the `speculative_config` of exactly the version that it is written for."""

from __future__ import annotations

import math
from typing import Any, Final

import yaml

from specc.bundle.manifest import LimitsSpec
from specc.catalog.trtllm_versions import SpeculativeFields, SwitchOff, row_of_version
from specc.errors import SpeccBug
from specc.plan.cost import rounded
from specc.plan.trtllm_plan import DRAFT_FOLDER, TrtllmPlan, TrtllmSpeculation
from specc.plan.trtllm_speculation import lower_bounds, upper_bounds

SERVE_FILE: Final = "trtllm-serve.yaml"
TARGET: Final = "checkpoints/target"
MEMORY_FRACTION: Final = 0.8
"""Of the memory that is free once the weights are loaded, for caches."""


def serve_text(plan: TrtllmPlan, limits: LimitsSpec) -> str:
    """Return the YAML, under the command that it belongs to."""
    command = " ".join(serve_arguments(plan, limits))
    body = yaml.safe_dump(serve_options(plan, limits), sort_keys=False, default_flow_style=False)
    return (
        f"# For TensorRT-LLM {plan.version}: another version may read these fields differently.\n"
        f"# In the bundle's folder:\n#   {command}\n{body}"
    )


def serve_arguments(plan: TrtllmPlan, limits: LimitsSpec) -> list[str]:
    """Return the command line of the server, to be run in the bundle's folder."""
    model = plan.target
    sizes = ["--tp_size", str(model.tp_size)]
    sizes += ["--pp_size", str(model.pp_size)] if model.pp_size > 1 else []
    return [
        "trtllm-serve", TARGET, "--backend", "pytorch", *sizes, "--max_batch_size", str(limits.max_batch),
        "--max_num_tokens", str(plan.max_num_tokens), "--max_seq_len", str(plan.max_seq_len),
        fields_of_plan(plan).config_flag, f"deploy/{SERVE_FILE}",
    ]  # fmt: skip


def serve_options(plan: TrtllmPlan, limits: LimitsSpec) -> dict[str, Any]:
    """Return the content of the YAML."""
    watched = {"enable_iter_perf_stats": True}
    if fields_of_plan(plan).metrics == "prometheus":
        watched["return_perf_metrics"] = True
    return model_options(plan, limits) | watched


def model_options(plan: TrtllmPlan, limits: LimitsSpec) -> dict[str, Any]:
    """Return what of it holds for another server over the same model too, which has metrics of its own."""
    fields, speculation = fields_of_plan(plan), plan.speculation
    options: dict[str, Any] = {}
    if speculation.kind in fields.drafts_separately:
        options["disable_overlap_scheduler"] = True
    options |= graph_options(fields, limits)
    options |= cache_options(fields, plan, reuse=speculation.kind not in fields.drafts_separately)
    if speculation.kind != "none":
        options["speculative_config"] = speculative_options(fields, speculation, limits)
    return options


def speculative_options(
    fields: SpeculativeFields, speculation: TrtllmSpeculation, limits: LimitsSpec
) -> dict[str, Any]:
    """Return `speculative_config` in the names and meanings of a version."""
    kind = speculation.kind
    options: dict[str, Any] = {
        "decoding_type": fields.decoding_types[kind],
        fields.lengths.get(kind, "max_draft_len"): speculation.max_draft_len,
    }
    if kind == "model":
        options[fields.draft_path] = DRAFT_FOLDER
    if speculation.head is not None:
        options[fields.draft_path] = speculation.head
    if speculation.taps and fields.taps:
        options["eagle3_layers_to_capture"] = list(speculation.taps)
    if speculation.mask_token_id is not None:
        options["mask_token_id"] = speculation.mask_token_id
    options |= lookup_options(speculation)
    if speculation.schedule:
        lower = fields.schedule == "lower bounds"
        by_batch = lower_bounds(speculation.schedule) if lower else upper_bounds(speculation.schedule, limits.max_batch)
        options["draft_len_schedule"] = by_batch
    if speculation.max_concurrency is not None:
        options["max_concurrency"] = speculation.max_concurrency
    if speculation.min_accepted is not None and fields.switch_off is not None:
        per_draft = fields.switch_off.unit == "ratio"
        options[fields.switch_off.window] = switch_off_window(fields.switch_off, speculation, limits)
        options[fields.switch_off.threshold] = (
            min(1.0, rounded(speculation.min_accepted / speculation.max_draft_len))
            if per_draft
            else speculation.min_accepted
        )
    if speculation.judges_probabilities and fields.rejection_sampling is not None:
        options[fields.rejection_sampling] = True
    return options


def switch_off_window(rule: SwitchOff, speculation: TrtllmSpeculation, limits: LimitsSpec) -> int:
    """Return the samples whose mean decides: `window` requests, or the calls that so many of the longest answers take.

    The end is for good, so that a few calls must not decide it.
    """
    if rule.sample == "request" or speculation.min_accepted is None:
        return speculation.window
    return speculation.window * math.ceil(limits.max_output / (1 + speculation.min_accepted))


def graph_options(fields: SpeculativeFields, limits: LimitsSpec) -> dict[str, Any]:
    """Return that CUDA graphs serve every batch: rounded up, since those of 1.0 to 1.3 leave gaps above 32 rows."""
    if fields.cuda_graphs == "section":
        return {"cuda_graph_config": {"enable_padding": True, "max_batch_size": limits.max_batch}}
    return {
        "use_cuda_graph": True,
        "cuda_graph_padding_enabled": True,
        "cuda_graph_max_batch_size": limits.max_batch,
    }


def lookup_options(speculation: TrtllmSpeculation) -> dict[str, Any]:
    """Return how n-grams, or a suffix tree, look texts up; both are silent about it where another kind drafts."""
    lookup = speculation.lookup
    if lookup is None:
        return {}
    if lookup.longest is None:
        return {"enable_global_pool": lookup.shared}
    return {
        "max_matching_ngram_size": lookup.longest,
        "is_use_oldest": lookup.oldest,
        "is_public_pool": lookup.shared,
    }


def cache_options(fields: SpeculativeFields, plan: TrtllmPlan, *, reuse: bool) -> dict[str, Any]:
    """Return what is said of the caches; blocks are not reused beside a second model, as in NVIDIA's own examples.

    Their dtype holds for both models, so nothing is said where the checkpoint of one states fp8 and the other keeps
    its own: silence leaves each as its checkpoint says.
    """
    section: dict[str, Any] = {"enable_block_reuse": reuse, "free_gpu_memory_fraction": MEMORY_FRACTION}
    options: dict[str, Any] = {"kv_cache_config": section}
    if all(model.kv_cache == "fp8" for model in (plan.target, plan.draft) if model is not None):
        *_, name = fields.cache_dtype.split(".")
        (section if "." in fields.cache_dtype else options)[name] = "fp8"
    return options


def fields_of_plan(plan: TrtllmPlan) -> SpeculativeFields:
    """Return how the plan's version reads its YAML."""
    row = row_of_version(plan.version)
    if row is None or row.serve is None:
        raise SpeccBug(f"planned for TensorRT-LLM {plan.version}, which no row holds")
    return row.serve
