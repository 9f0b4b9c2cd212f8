"""What a build for TensorRT-LLM writes on the disk: from sizes alone, before a checkpoint is there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from specc.catalog.published import PUBLISHED, PublishedModel, repository_of
from specc.catalog.schemes import SCHEMES
from specc.catalog.sizes import size_text
from specc.catalog.trtllm_versions import Flow
from specc.errors import SpeccError
from specc.recipe.backend import BackendChoice
from specc.recipe.models import ModelChoice, ModelDraft
from specc.recipe.schema import Recipe

ABSENT: Final = ("SPC201", "SPC203", "SPC204", "SPC205", "SPC221")
"""Codes of errors about checkpoints that are not there, or not all of them."""
Form: TypeAlias = Literal["ranks", "shards"]


@dataclass(frozen=True)
class WeightCount:
    """How many weights a model has: in all, and in embedding and head, which are never quantized."""

    parameters: int
    table: int
    tied: bool


def written_bytes(count: WeightCount, form: Form, bits: int, tp_size: int) -> int:
    """Return what is written of a model.

    Args:
        count: its weights.
        form: `ranks`: the embedding is whole on every GPU of the first stage, and a tied head is written too;
            `shards`: as the source divides it.
        bits: of a weight outside embedding and head.
        tp_size: GPUs that share every matrix.
    """
    matrices = count.parameters - count.table * (1 if count.tied else 2)
    tables = tp_size + 1 if form == "ranks" else 1 if count.tied else 2
    return matrices * bits // 8 + 2 * tables * count.table


def with_disk_of_build(error: SpeccError, recipe: Recipe) -> SpeccError:
    """Return an error about an absent checkpoint with what the whole recipe downloads and its build writes."""
    text = disk_text(recipe) if error.code in ABSENT else ""
    return SpeccError(error.code, error.place, error.got, error.why, f"{error.fix}; {text}") if text else error


def disk_text(recipe: Recipe) -> str:
    """Return it in words; empty for other back ends, and where a model's size is not known."""
    if recipe.backend is None or recipe.backend.name != "tensorrt-llm":
        return ""
    flow: Flow = recipe.backend.flow or "serve"
    choices = [recipe.target, *([recipe.draft] if isinstance(recipe.draft, ModelDraft) else [])]
    names = [repository_of(choice.model) for choice in choices]
    models = [PUBLISHED[name] for name in names if name is not None]
    if len(models) < len(choices):
        return ""
    sizes = _sizes(recipe, recipe.backend, flow)
    written = sum(_written(*each, flow) for each in zip(choices, models, sizes, strict=False))
    commands = ", ".join(f"`hf download {name}`" for name in names)
    all_of_it = size_text(sum(model.nbytes for model in models))
    said = f"writes {size_text(written)} of weights beside them"
    if not written:
        said = "links them, or copies them from another file system"
    return f"this recipe needs {all_of_it} in all ({commands}), and its build {said}"


def _sizes(recipe: Recipe, backend: BackendChoice, flow: Flow) -> tuple[int, int]:
    """Return the GPUs that share a matrix of target and draft."""
    tp_size = recipe.gpu.count // (backend.pp_size or 1)
    return tp_size, 1 if flow == "engine" else tp_size


def _written(choice: ModelChoice, model: PublishedModel, tp_size: int, flow: Flow) -> int:
    scheme = choice.scheme_name or "bf16"
    bits = SCHEMES[scheme].weight_bits
    if flow == "serve" and bits == model.bits:
        return 0
    at_build = flow == "engine" and scheme in ("w8a16", "w4a16")
    count = WeightCount(model.parameters, model.table, model.tied)
    return written_bytes(count, "ranks" if flow == "engine" else "shards", 16 if at_build else bits, tp_size)
