"""Whether the memory table fits the GPUs, for back ends whose whole plan this version does not make."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from specc.catalog.gpus import gigabytes_text
from specc.catalog.sizes import size_text
from specc.checkpoint.facts import ModelFacts
from specc.doctor.evidence import ModelEvidence, PairEvidence
from specc.doctor.finding import Finding, Fix
from specc.doctor.rule import Rule
from specc.doctor.sizes import facts_from_sizes
from specc.errors import SpeccError
from specc.plan.outlook import NOTHING_GIVEN
from specc.plan.preview import Facts, Preview, preview_from_recipe
from specc.plan.remedies import remedies_text


def _findings(pair: PairEvidence) -> Iterator[Finding]:
    target = _facts(pair.target)
    if pair.plan is not None or target is None:
        return
    draft = None if pair.draft is None else _facts(pair.draft)
    try:
        preview = preview_from_recipe(pair.recipe, Facts(target, draft), NOTHING_GIVEN, None)
    except SpeccError:
        return  # limits that do not fit the model: planning says so
    fit = preview.fit
    if fit is None or fit.headroom_bytes >= 0:
        return
    place = pair.recipe.place("gpu", "name")
    evidence = (
        (f"{size_text(_sum(preview, 'weights'))} of weights", _schemes(preview)),
        (f"{size_text(_sum(preview, 'caches'))} of caches", _caches(preview)),
        (f"{size_text(_sum(preview, 'scratch') + _sum(preview, 'runtime'))} of scratch and runtime", "estimates"),
        (f"{pair.recipe.gpu.count} x {gigabytes_text(fit.available_bytes)}", pair.gpu_place),
    )
    message = f"One GPU needs {size_text(-fit.headroom_bytes)} more than it has; `specc plan` shows every item."
    yield Finding("SPC305", "error", place, evidence, message, Fix(remedies_text(fit.remedies)))


def _facts(model: ModelEvidence) -> ModelFacts | None:
    if model.facts is not None:
        return model.facts
    return None if model.sizes is None else facts_from_sizes(model.sizes)


def _sum(preview: Preview, kind: str) -> int:
    return sum(item.bytes for item in preview.memory if item.kind == kind)


def _schemes(preview: Preview) -> str:
    return preview.scheme if preview.draft_scheme is None else f"{preview.scheme} and {preview.draft_scheme}"


def _caches(preview: Preview) -> str:
    limits = preview.limits
    return f"{limits.max_batch} requests of {limits.max_length} tokens"


RULE: Final = Rule("gpu_memory", ("target config",), _findings)
