"""Dtypes of caches for TensorRT-LLM: what the recipe wants, the checkpoint states, and one YAML says of two models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from specc.plan.trtllm_plan import TrtllmModelPlan, WeightsForm
from specc.plan.trtllm_quantization import refused
from specc.recipe.models import ModelChoice, ModelDraft
from specc.recipe.schema import Recipe


def check_engine_cache(recipe: Recipe, role: str, cache: str, *, weights: WeightsForm, scheme: str, dtype: str) -> None:
    """Refuse the dtype of caches that costs an engine its paged-context attention.

    Source: builder.py of TensorRT-LLM 1.2, which keeps it beside static fp8; fp8 by rows is another algorithm there.

    Raises:
        SpeccError: SPC324.
    """
    static = scheme == "fp8" and weights == "stored"
    if cache == "fp8" and not static:
        why = (
            "trtllm-build then switches paged-context attention off without a word, which drafts from a draft engine "
            "and reused prefixes need"
        )
        got = f"caches of fp8 beside weights of {'fp8 row by row' if weights == 'fp8 rows' else scheme}"
        fix = f"kv_cache: {dtype}, or scheme fp8 of a checkpoint that ModelOpt calibrated to fp8"
        raise refused(recipe, (role, "kv_cache"), got, why, fix)


def cache_dtype(recipe: Recipe, role: str, choice: ModelChoice, *, dtype: str, stated: bool) -> str:
    """Return the dtype of the caches.

    Args:
        recipe: for the places of errors.
        role: whose model.
        choice: of the recipe.
        dtype: of what is not quantized.
        stated: the checkpoint is placed for trtllm-serve as it is, and states caches of fp8.

    Source: validate_and_set_kv_cache_quant of its model loader, 0.21 to 1.3: a YAML that is silent, or says auto,
    leaves the checkpoint's dtype, and no value takes it back.
    """
    if not stated:
        return choice.kv_cache or dtype
    if choice.kv_cache not in (None, "fp8"):
        got = f"caches of {choice.kv_cache} for a checkpoint whose hf_quant_config.json states FP8"
        why = "trtllm-serve keeps caches as the checkpoint states, and its YAML cannot take that back"
        raise refused(recipe, (role, "kv_cache"), got, why, "kv_cache: fp8, or remove it")
    return "fp8"


def caches_of_pair(
    recipe: Recipe, target: TrtllmModelPlan, draft: TrtllmModelPlan | None, stateable: Mapping[str, bool]
) -> tuple[TrtllmModelPlan, TrtllmModelPlan | None]:
    """Return the layouts, where the caches of one model alone are fp8 with that stated beside its weights.

    The YAML's only dtype holds for both models, so it cannot say it.

    Args:
        recipe: for the places of errors.
        target: as planned alone.
        draft: likewise; None without a draft model.
        stateable: by role, whether the checkpoint has an hf_quant_config.json, which is written anew then.

    Source: py_executor_creator.py of TensorRT-LLM, which loads the draft with a copy of the target's arguments.

    Raises:
        SpeccError: SPC324 there is no such file.
    """
    if draft is None or target.layout == "ranks" or target.kv_cache == draft.kv_cache:
        return target, draft
    role, other, model = ("target", "draft", target) if target.kv_cache == "fp8" else ("draft", "target", draft)
    if not model.cache_stated and not stateable[role]:
        got = f"caches of fp8 for the {role} alone, beside whose weights no hf_quant_config.json can state them"
        why = f"kv_cache_config.dtype of trtllm-serve holds for both models, so the {other}'s caches would be fp8 too"
        fix = f"{role}.kv_cache: bf16, or {other}.kv_cache: fp8"
        raise refused(recipe, (role, "kv_cache"), got, why, fix)
    stated = replace(model, cache_stated=True)
    return (stated, draft) if role == "target" else (target, stated)


def cache_notes(recipe: Recipe, target: TrtllmModelPlan, draft: TrtllmModelPlan | None) -> tuple[str, ...]:
    """Return what of the caches follows from a checkpoint, or stands elsewhere than in the YAML."""
    choices: list[tuple[str, ModelChoice, TrtllmModelPlan]] = [("target", recipe.target, target)]
    if draft is not None and isinstance(recipe.draft, ModelDraft):
        choices.append(("draft", recipe.draft, draft))
    notes = [
        f"the {role}'s caches are fp8, as its hf_quant_config.json states: the recipe is silent."
        for role, choice, model in choices
        if model.cache_stated and choice.kv_cache is None
    ]
    stated = [role for role, _, model in choices if model.cache_stated]
    if draft is not None and stated and target.kv_cache != draft.kv_cache:
        notes.append(
            f"caches of fp8 for the {stated[0]} alone: hf_quant_config.json beside its weights states them, since the "
            "dtype in the YAML of trtllm-serve would hold for both models."
        )
    return tuple(notes)
