"""Cache dtypes that TensorRT-LLM serves at a loss beside these weights, or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from specc.catalog.legality import FAST_CACHE_SCHEMES
from specc.catalog.schemes import PLAIN
from specc.checkpoint.facts import ModelFacts
from specc.doctor.evidence import PairEvidence
from specc.doctor.finding import Finding, Fix
from specc.doctor.rule import Rule
from specc.recipe.models import ModelDraft

SWITCHED_OFF: Final = (
    "trtllm-build then switches paged-context attention off silently: neither a reused prefix nor the "
    "verification of drafts runs as fast as it could, and drafts from a draft engine need it."
)
UNSCALED: Final = (
    "trtllm-serve then attends in fp8 wherever blocks are reused or drafts verified, and wants the scale of the next "
    "layer's inputs, which layers of fp8 and nvfp4 alone have; on Hopper it is reported to stop without one."
)
"""Source: thop/attentionOp.cpp and common/attentionOp.cpp of TensorRT-LLM, 1.0 to 1.3: `mFP8ContextFMHA` asks for
`attention_out_scale`; that it stops on SM 9.0 was reported of 1.3.0rc20, and was not tried."""


def _findings(pair: PairEvidence) -> Iterator[Finding]:
    recipe = pair.recipe
    if recipe.backend is None or recipe.backend.name != "tensorrt-llm":
        return
    engine = recipe.backend.flow == "engine"
    draft = recipe.draft if isinstance(recipe.draft, ModelDraft) else None
    for role, choice, seen in (("target", recipe.target, pair.target), ("draft", draft, pair.draft)):
        if choice is None or choice.kv_cache not in FAST_CACHE_SCHEMES:
            continue
        scheme = choice.scheme_name or "bf16"
        if scheme in FAST_CACHE_SCHEMES[choice.kv_cache]:
            continue
        place = recipe.place(role, "kv_cache")
        evidence = ((f"kv_cache {choice.kv_cache}", place), (f"weights of {scheme}", recipe.place(role, "scheme")))
        message = SWITCHED_OFF if engine or choice.kv_cache == "int8" else UNSCALED
        fix = f"remove {role}.kv_cache"
        if choice.kv_cache == "fp8" and engine:
            fix += f", or a checkpoint that ModelOpt calibrated to fp8, with {role}.scheme: fp8"
        elif choice.kv_cache == "fp8" and (seen is None or _takes_fp8(seen.facts)):
            fix += f", or {role}.scheme: fp8"
        yield Finding("SPC348", "warning", place, evidence, message, Fix(fix))


def _takes_fp8(facts: ModelFacts | None) -> bool:
    """Return whether specc can scale these weights to fp8 for trtllm-serve, as far as is known."""
    return facts is None or (facts.stored_dtype in PLAIN and facts.experts is None)


RULE: Final = Rule("kv_precision", (), _findings)
