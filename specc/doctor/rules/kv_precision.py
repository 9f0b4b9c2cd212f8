"""Cache dtypes that switch TensorRT-LLM's paged-context attention off, without a word."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from specc.catalog.legality import FAST_CACHE_SCHEMES
from specc.doctor.evidence import PairEvidence
from specc.doctor.finding import Finding, Fix
from specc.doctor.rule import Rule
from specc.recipe.models import ModelDraft


def _findings(pair: PairEvidence) -> Iterator[Finding]:
    recipe = pair.recipe
    if recipe.backend is None or recipe.backend.name != "tensorrt-llm":
        return
    draft = recipe.draft if isinstance(recipe.draft, ModelDraft) else None
    for role, choice in (("target", recipe.target), ("draft", draft)):
        if choice is None or choice.kv_cache not in FAST_CACHE_SCHEMES:
            continue
        scheme = choice.scheme_name or "bf16"
        if scheme in FAST_CACHE_SCHEMES[choice.kv_cache]:
            continue
        place = recipe.place(role, "kv_cache")
        evidence = ((f"kv_cache {choice.kv_cache}", place), (f"weights of {scheme}", recipe.place(role, "scheme")))
        message = (
            "TensorRT-LLM then switches paged-context attention off silently: neither a reused prefix nor the "
            "verification of drafts runs as fast as it could, and drafts from a draft engine need it."
        )
        keeps = "kv_cache: bf16" + ("" if choice.kv_cache == "int8" else f", or {role}.scheme: fp8")
        yield Finding("SPC348", "warning", place, evidence, message, Fix(keeps))


RULE: Final = Rule("kv_precision", (), _findings)
