"""Which scheme runs on which GPU under TensorRT-LLM, whose engines are not built here; planning checks the others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from specc.catalog.gpus import sm_number
from specc.catalog.legality import FIRST_SM
from specc.catalog.schemes import SCHEMES
from specc.doctor.evidence import PairEvidence
from specc.doctor.finding import Finding, Fix
from specc.doctor.rule import Rule
from specc.recipe.models import ModelDraft


def _findings(pair: PairEvidence) -> Iterator[Finding]:
    recipe, sm = pair.recipe, pair.gpu.compute_capability
    if recipe.backend is None or recipe.backend.name not in FIRST_SM:
        return
    backend = recipe.backend.name
    if sm is None or pair.gpu.planning_only:
        evidence = ((backend, recipe.place("backend", "name")), (pair.gpu.name, recipe.place("gpu", "name")))
        fix = Fix("name a GPU, as gpu: h100-sxm-80gb, or backend: onnxruntime")
        yield Finding(
            "SPC343", "error", recipe.place("gpu", "name"), evidence, "Its engines run on NVIDIA GPUs only.", fix
        )
        return
    draft = recipe.draft if isinstance(recipe.draft, ModelDraft) else None
    for role, choice in (("target", recipe.target), ("draft", draft)):
        if choice is None:
            continue
        for key, name in (("scheme", choice.scheme_name), ("kv_cache", choice.kv_cache)):
            if name is None or sm_number(sm) >= sm_number(FIRST_SM[backend][name]):
                continue
            place = recipe.place(role, key)
            evidence = ((f"{key} {name}", place), (f"SM {sm}", pair.gpu_place))
            message = f"{backend} runs {name} from SM {FIRST_SM[backend][name]} on."
            yield Finding("SPC343", "error", place, evidence, message, Fix(_others(backend, key, sm)))


def _others(backend: str, key: str, sm: str) -> str:
    runs = [name for name, first in FIRST_SM[backend].items() if sm_number(sm) >= sm_number(first)]
    known = [name for name in runs if (name in SCHEMES) or key == "kv_cache"]
    return " or ".join(f"{key}: {name}" for name in known)


RULE: Final = Rule("legality", (), _findings)
