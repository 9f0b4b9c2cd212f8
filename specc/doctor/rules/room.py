"""Whether disk and memory of this machine hold the build."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from specc.bundle.objects import cache_folder
from specc.catalog.capabilities import BACKENDS
from specc.catalog.schemes import SCHEMES
from specc.catalog.sizes import size_text
from specc.doctor.evidence import ModelEvidence, PairEvidence
from specc.doctor.finding import Finding, Fix
from specc.doctor.rule import Rule
from specc.plan.calibration import calibration_of_plan
from specc.plan.draft import build_plan_of_draft
from specc.plan.plan import Plan
from specc.plan.trtllm_disk import Form, WeightCount, written_bytes
from specc.plan.trtllm_plan import TrtllmModelPlan

ENGINE_COPIES: Final = {"onnxruntime": 0, "tensorrt-rtx": 1, "tensorrt": 1, "tensorrt-llm": 0}
"""How many further copies of the weights the engines of a back end hold; those of TensorRT-LLM are built elsewhere."""
HOLD_TWICE: Final = ("tensorrt-rtx", "tensorrt")
"""Whose builder keeps the weights of an engine in memory twice; measured of TensorRT-RTX, TensorRT shares the code."""


def _findings(pair: PairEvidence) -> Iterator[Finding]:
    plan = pair.plan
    if plan is None or plan.backend.name not in BACKENDS:
        return
    models = [(pair.target, plan.target.scheme)]
    if pair.draft is not None and plan.draft_model is not None:
        models.append((pair.draft, plan.draft_model.model.scheme))
    yield from _disk(pair, plan, models)
    yield from _memory(pair, plan, models)


def _disk(pair: PairEvidence, plan: Plan, models: list[tuple[ModelEvidence, str]]) -> Iterator[Finding]:
    folder = _existing(cache_folder())
    free = shutil.disk_usage(folder).free
    copies = ENGINE_COPIES.get(plan.backend.name, 1)
    own = (_written(model, scheme) for model, scheme in models)
    written = own if plan.backend.trtllm is None else _of_checkpoint(pair, plan)
    needed = sum(written) + copies * sum(_weights(model, scheme) for model, scheme in models)
    if needed <= free:
        return
    evidence = (
        (
            f"{size_text(needed)} are written",
            f"weights as {plan.target.scheme}" + (" and the engines' own copies" if copies else ""),
        ),
        (f"{size_text(free)} are free", str(folder)),
    )
    fix = Fix("free space (`specc cache gc` helps), or set SPECC_CACHE to a folder on a larger disk")
    place = pair.recipe.place("target", "model")
    yield Finding("SPC347", "error", place, evidence, "The disk does not hold what the build writes.", fix)


def _memory(pair: PairEvidence, plan: Plan, models: list[tuple[ModelEvidence, str]]) -> Iterator[Finding]:
    """Compare the builder's working set: TensorRT holds the weights of one engine twice, others one tensor.

    Calibration runs the model in float32.
    """
    installed = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if plan.backend.name in HOLD_TWICE:
        needed = max(2 * _weights(model, scheme) for model, scheme in models)
    else:
        needed = max(_largest_tensor(model) for model, _ in models)
    draft = build_plan_of_draft(plan)
    for of, model in ((plan, pair.target), *([] if draft is None or pair.draft is None else [(draft, pair.draft)])):
        if calibration_of_plan(of) is not None and model.sizes is not None:
            needed = max(needed, 4 * model.sizes.parameters)
    if needed <= installed:
        return
    evidence = (
        (f"about {size_text(needed)}", f"the build of {plan.backend.name}"),
        (f"{size_text(installed)}", "memory of this machine"),
    )
    fix = Fix("build on a machine with more memory; a bundle can be copied")
    place = pair.recipe.place("target", "model")
    yield Finding("SPC347", "warning", place, evidence, "The build will swap, or be ended by the system.", fix)


def _weights(model: ModelEvidence, scheme: str) -> int:
    return 0 if model.sizes is None else model.sizes.parameters * SCHEMES[scheme].weight_bits // 8


def _written(model: ModelEvidence, scheme: str) -> int:
    """Return the bytes of weights that are written; those stored as they are used are linked."""
    linked = all(header.plain and header.encoding == scheme for header in (model.headers or {}).values())
    return 0 if linked else _weights(model, scheme)


def _of_checkpoint(pair: PairEvidence, plan: Plan) -> Iterator[int]:
    """Yield the bytes that are written for TensorRT-LLM of each model; a source's own files are linked."""
    trtllm = plan.backend.trtllm
    for model, layout in () if trtllm is None else ((pair.target, trtllm.target), (pair.draft, trtllm.draft)):
        if model is not None and layout is not None and layout.layout != "source":
            yield _of_layout(model, layout)


def _of_layout(model: ModelEvidence, layout: TrtllmModelPlan) -> int:
    sizes = model.sizes
    if sizes is None:
        return 0
    count = WeightCount(sizes.parameters, sizes.vocab_size * sizes.hidden_size, sizes.tied)
    scheme = layout.dtype if layout.weights in ("plain", "at build") else layout.scheme
    form: Form = "ranks" if layout.layout == "ranks" else "shards"
    return written_bytes(count, form, SCHEMES[scheme].weight_bits, layout.tp_size)


def _largest_tensor(model: ModelEvidence) -> int:
    sizes = model.sizes
    return 0 if sizes is None else 8 * sizes.hidden_size * max(sizes.vocab_size, sizes.intermediate_size)


def _existing(folder: Path) -> Path:
    return next(path for path in (folder, *folder.parents) if path.exists())


RULE: Final = Rule("room", ("target config",), _findings)
