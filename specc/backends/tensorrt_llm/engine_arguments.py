"""The arguments of trtllm-build and of the example runner, where engines are built and run on the machine with GPUs.

Drafts of another engine need paged-context attention on both sides, and a target that was built for as many drafts. The
builder lengthens the target by max_draft_len itself, and nothing lengthens the draft.
"""

from __future__ import annotations

from typing import Any, Final

from specc.bundle.manifest import LimitsSpec
from specc.plan.trtllm_plan import TrtllmModelPlan, TrtllmPlan

COMMANDS_FILE: Final = "trtllm-commands.json"
CHECKPOINT, ENGINE = "checkpoints/{role}", "trtllm-engines/{role}"
CACHE_FRACTION: Final = 0.4
"""Of the free memory, for the caches of each of two engines; NVIDIA's example has the same."""


def commands_from_plan(plan: TrtllmPlan, limits: LimitsSpec) -> dict[str, Any]:
    """Return every command as a list of arguments, to be run in the bundle's folder."""
    build = {"target": build_arguments(plan, limits, "target")}
    if plan.draft is not None:
        build["draft"] = build_arguments(plan, limits, "draft")
    return {"tensorrt_llm": plan.version, "build": build, "run": run_arguments(plan)}


def build_arguments(plan: TrtllmPlan, limits: LimitsSpec, role: str) -> list[str]:
    """Return the command that builds the engines of one model."""
    model = plan.target if role == "target" or plan.draft is None else plan.draft
    command = [
        "trtllm-build",
        "--checkpoint_dir", CHECKPOINT.format(role=role),
        "--output_dir", ENGINE.format(role=role),
        "--workers", str(model.world_size),
        "--gemm_plugin", "auto",
        "--use_paged_context_fmha", "enable",
        *_fp8_context(model),
        "--max_batch_size", str(limits.max_batch),
        "--max_input_len", str(limits.max_input),
        "--max_seq_len", str(plan.max_seq_len if role == "target" else plan.draft_max_seq_len),
        "--max_num_tokens", str(plan.max_num_tokens),
    ]  # fmt: skip
    if role == "target" and plan.speculation.kind != "none":
        drafts = ["--speculative_decoding_mode", "draft_tokens_external", "--max_draft_len", str(limits.max_gamma)]
        command += drafts
    return command


def run_arguments(plan: TrtllmPlan) -> list[str]:
    """Return the command of TensorRT-LLM's examples/run.py, without a prompt.

    One process starts those of the GPUs itself where it drafts, a second model or n-grams alike.

    Source: examples of TensorRT-LLM, run_dtm_ngram.py, which makes its runners with `is_orchestrator_mode`.
    """
    target = plan.target.world_size
    speculates = plan.speculation.kind != "none"
    launch = ["mpirun", "-n", "1" if speculates else str(target), "--allow-run-as-root"]
    command = [
        *launch, "python3", "examples/run.py", "--engine_dir", ENGINE.format(role="target"),
        "--tokenizer_dir", f"{CHECKPOINT.format(role='target')}/huggingface", "--kv_cache_enable_block_reuse",
    ]  # fmt: skip
    drafts = plan.speculation
    gpus = ",".join(map(str, range(target)))
    if drafts.lookup is not None:
        return [*command, "--ngram_config", f"[{drafts.max_draft_len},{drafts.lookup.longest},[{gpus}]]"]
    if plan.draft is None:
        return command
    own = ",".join(map(str, range(plan.draft.world_size)))
    together = f"[{drafts.max_draft_len},[{own}],[{gpus}],{drafts.judges_probabilities}]"
    return [
        *command, "--draft_engine_dir", ENGINE.format(role="draft"), "--draft_target_model_config", together,
        "--kv_cache_free_gpu_memory_fraction", str(CACHE_FRACTION),
    ]  # fmt: skip


def _fp8_context(model: TrtllmModelPlan) -> list[str]:
    return ["--use_fp8_context_fmha", "enable"] if model.kv_cache == "fp8" else []
