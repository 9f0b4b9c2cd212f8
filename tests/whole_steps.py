"""Tiny models whose rounds are one graph: their engines for ONNX Runtime, or lowered as for TensorRT-RTX."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from specc.backends.onnxruntime import OnnxRuntimeBackend
from specc.backends.tensorrt import spec_from_lowered
from specc.backends.tensorrt_rows import TENSORRT_RTX
from specc.bundle.drafts import ModelDraftSpec
from specc.bundle.manifest import EngineSpec, LimitsSpec, Manifest
from specc.catalog.capabilities import BACKENDS
from specc.lower.graphs import lowered_in_folder
from specc.lower.lowered import Lowered
from specc.lower.lowered_from_plan import lowered_from_plan
from specc.lower.place import link_or_copy
from specc.lower.whole_step import write_whole_step
from specc.plan.plan import Plan
from specc.plan.profiles import draft_profiles
from specc.progress import silent
from specc.runtime.runners.onnxruntime import OnnxRuntimeRunner, onnxruntime_runner
from specc.runtime.runners.onnxruntime_whole import OnnxRuntimeWholeRunner, onnxruntime_whole_runner
from specc.speculation.modes import TypicalSpec
from tests.double_runner import ToyModel, toy_manifest
from tests.tensorrt_double import rtx_plan, rtx_profiles
from tests.tiny_engines import EMITTED, plan_from_facts, source_from_sizes, tiny_graph_plan
from tests.tiny_models import TinyLlama

TARGET = TinyLlama()
SMALLER = TinyLlama(
    vocab_size=272, hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=2,
    num_key_value_heads=1, seed=5,
)  # fmt: skip
# The target with rounded weights: most of its drafts are right.
NEAR = replace(TARGET, stored="bf16")
DRAFTS = {"near": NEAR, "smaller": SMALLER}
CAPACITY, LONGEST, CHUNK, SLOTS, STEPS = 128, 96, 8, 3, 3


@dataclass(frozen=True)
class WholeEngines:
    """Engines of a pair, by (role, variant), and the plans that they were made by."""

    folder: Path
    specs: dict[tuple[str, str], EngineSpec]
    target: Plan
    draft: Plan

    def runners(self) -> tuple[OnnxRuntimeRunner, OnnxRuntimeRunner, OnnxRuntimeRunner, OnnxRuntimeWholeRunner]:
        """Return runners of target, draft, unrolled draft and whole step; the last two over caches of the others."""
        target = onnxruntime_runner(self.folder, self.specs["target", "main"], threads=1)
        draft = onnxruntime_runner(self.folder, self.specs["draft", "main"], threads=1)
        burst = onnxruntime_runner(self.folder, self.specs["draft", "unrolled"], threads=1, caches_of=draft)
        spec = self.specs["target", "whole"]
        return target, draft, burst, onnxruntime_whole_runner(self.folder, spec, threads=1, target=target, draft=draft)

    def manifest(self, acceptance: str, steps: str = "whole", **limits: int) -> Manifest:
        """Return a manifest of these models."""
        given = {"max_length": LONGEST, "prefill_chunk": CHUNK, "max_batch": SLOTS} | limits
        draft = ModelDraftSpec("model", "draft", "f32", LONGEST, steps)  # type: ignore[arg-type]
        manifest = toy_manifest(ToyModel(EMITTED), self.specs["target", "main"], draft=draft, **given)
        return replace(manifest, tokenizer=None, acceptance=acceptance)  # type: ignore[arg-type]


def lowered_pair(
    folder: Path, acceptance: str, draft: str, *, rtx: bool = False, head_dim: int = 16, **graph: Any
) -> tuple[dict[str, Lowered], Plan, Plan]:
    """Lower target, draft and whole step into folders of these names, and return them with both plans."""
    typical = TypicalSpec(0.09, 0.3) if acceptance == "typical" else None
    limits = LimitsSpec(SLOTS, 64, 32, LONGEST, CHUNK, STEPS, STEPS)
    made, plans = {}, []
    target = replace(TARGET, head_dim=head_dim)
    drafting = replace(DRAFTS[draft], head_dim=head_dim)
    for role, sizes, rows in (("target", target, STEPS + 1), ("draft", drafting, 1)):
        changes = {"acceptance": acceptance, "typical": typical, "max_logit_rows": rows, "variants": ("main",)} | graph
        if role == "draft":
            changes |= {"role": "draft", "variants": ("main", "unrolled"), "steps": STEPS}
        stored = graph.get("compute_dtype", sizes.stored)
        source = source_from_sizes(folder / f"{role}-source", replace(sizes, stored=stored))
        plan = plan_from_facts(source.facts, tiny_graph_plan(capacity_buckets=(64, CAPACITY), **changes))
        if rtx:
            profiles = rtx_profiles(SLOTS, CHUNK, STEPS)
            if role == "draft":
                profiles = draft_profiles(BACKENDS["tensorrt-rtx"], limits)
            fixed = rtx_plan(plan, profiles)
            plan = replace(fixed, graph=replace(fixed.graph, variants=changes["variants"]))
        (folder / role).mkdir()
        made[role] = lowered_from_plan(plan, source, folder / role, silent)
        plans.append(plan)
    (folder / "whole").mkdir()
    write_whole_step(plans[0], folder / "target", folder / "draft", folder / "whole", link_or_copy)
    return made | {"whole": lowered_in_folder(folder / "whole")}, plans[0], plans[1]


def whole_engines(folder: Path, acceptance: str, draft: str = "near", **graph: Any) -> WholeEngines:
    """Return the engines for ONNX Runtime."""
    lowered, target, drafting = lowered_pair(folder, acceptance, draft, **graph)
    specs = {}
    for name, plan in (("target", target), ("draft", drafting), ("whole", target)):
        (folder / f"{name}-engines").mkdir()
        made = OnnxRuntimeBackend().engines_from_lowered(
            lowered[name], plan, folder / f"{name}-engines", link_or_copy, silent
        )
        for spec in made:
            specs[spec.role, spec.variant] = replace(spec, file=f"{name}-engines/{spec.file}")
    return WholeEngines(folder, specs, target, drafting)


def rtx_specs(folder: Path, acceptance: str, draft: str = "near", **graph: Any) -> WholeEngines:
    """Return specs of engines for TensorRT-RTX whose files are the lowered graphs."""
    lowered, target, drafting = lowered_pair(folder, acceptance, draft, rtx=True, **graph)
    specs = {}
    for name, plan in (("target", target), ("draft", drafting), ("whole", target)):
        for one in lowered[name].graphs:
            spec = spec_from_lowered(one, plan, TENSORRT_RTX, f"{name}/{one.file}")
            specs[spec.role, spec.variant] = spec
    return WholeEngines(folder, specs, target, drafting)
