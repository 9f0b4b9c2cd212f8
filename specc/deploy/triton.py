"""Triton Inference Server over TensorRT-LLM: its own back end for engines, and `llmapi` for the serve flow."""

from __future__ import annotations

from dataclasses import dataclass

import yaml

from specc.backends.tensorrt_llm.engine_arguments import CACHE_FRACTION
from specc.backends.tensorrt_llm.serve import TARGET, model_options
from specc.bundle.manifest import LimitsSpec
from specc.catalog.images import TRITON_IMAGE, TRITON_TRTLLM_TAGS
from specc.plan.trtllm_plan import TrtllmPlan


@dataclass(frozen=True)
class TritonEngines:
    """The repository of models over engines.

    Attributes:
        target_gpus, draft_gpus: ids with commas; None where no engine drafts.
        world_size: processes without a draft, one a GPU; with one an orchestrator starts them.
        cache_fraction: of the free memory, for the caches of each engine.
        draft_logits: drafts are judged by min(1, p/q).
        container: that has Triton and the very version, in words.
    """

    target_gpus: str
    draft_gpus: str | None
    world_size: int
    cache_fraction: float
    draft_logits: bool
    container: str


@dataclass(frozen=True)
class TritonModel:
    """The repository of the one model `llmapi`: its model.yaml, and the container as of `TritonEngines`."""

    options: str
    container: str


def triton_engines(trtllm: TrtllmPlan) -> TritonEngines:
    """Return the values of a bundle of the engine flow; both engines share the first GPUs, as in its run command."""
    draft = trtllm.draft
    return TritonEngines(
        target_gpus=_ids(trtllm.target.world_size),
        draft_gpus=None if draft is None else _ids(draft.world_size),
        world_size=trtllm.target.world_size,
        cache_fraction=CACHE_FRACTION,
        draft_logits=trtllm.speculation.judges_probabilities,
        container=container_from_version(trtllm.version),
    )


def triton_model(trtllm: TrtllmPlan, limits: LimitsSpec) -> TritonModel:
    """Return the values of a bundle of the serve flow.

    Requests are not batched by Triton: the model takes them one by one, and TensorRT-LLM batches them.
    """
    options = {
        "model": TARGET,
        "backend": "pytorch",
        "tensor_parallel_size": trtllm.target.tp_size,
        "pipeline_parallel_size": trtllm.target.pp_size,
        "max_batch_size": limits.max_batch,
        "max_num_tokens": trtllm.max_num_tokens,
        "max_seq_len": trtllm.max_seq_len,
        **model_options(trtllm, limits),
        "triton_config": {"max_batch_size": 0, "decoupled": False},
    }
    text = yaml.safe_dump(options, sort_keys=False, default_flow_style=False)
    return TritonModel(text, container_from_version(trtllm.version))


def container_from_version(version: str) -> str:
    """Return the container of Triton that has a version of TensorRT-LLM; which one is not known of every version."""
    tag = TRITON_TRTLLM_TAGS.get(version)
    if tag is not None:
        return f"NVIDIA's container {TRITON_IMAGE}:{tag}-trtllm-python-py3, which has TensorRT-LLM {version}"
    return f"NVIDIA's container {TRITON_IMAGE}:YY.MM-trtllm-python-py3 of the release that has TensorRT-LLM {version}"


def _ids(count: int) -> str:
    return ",".join(map(str, range(count)))
