"""The page to read first: a build as its stages, in order.

    recipe.yaml -> Recipe -> source checkpoint -> Plan -> weights -> graphs -> engines -> bundle -> certificate
                                                       -> checkpoint for TensorRT-LLM -> bundle

A draft model goes the same way from its own source to its own engine or checkpoint, beside the target's. An engine that
drafts and verifies in one call is composed of the graphs of both.

Each stage is one call below. What it makes lies in the content-addressed store under a key of everything that shaped
it, so a killed build resumes and a changed gamma writes no weights again. After the Plan nothing is decided.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from specc.assembly import write_bundle
from specc.backends import CHECKPOINT_BACKENDS
from specc.backends.aids import kernels_for_plan
from specc.backends.elsewhere import built_elsewhere, missing_builder
from specc.backends.outline import written_outline
from specc.bundle.certificate import CERTIFICATE_FILE
from specc.bundle.disk import replace_text
from specc.bundle.failures import coded_failures
from specc.bundle.lock import LOCK_FILE, RecipeLock, check_lock, pending_files, read_lock
from specc.bundle.publish import publish_bundle, staging_folder
from specc.bundle.store import Store
from specc.certify.gate import pass_gate, request_from_choice
from specc.certify.outlook import check_measured_speedup
from specc.certify.request import CertifyRequest
from specc.checkpoint.head_folder import HeadFolder
from specc.checkpoint.source import SourceCheckpoint
from specc.deploy.write import write_deployment
from specc.doctor.head_fit import check_head, checked_sources
from specc.inputs import Inputs, calibration_texts, draft_inputs, lock_from_plan, reads_no_weight
from specc.plan.choices import choices_from_recipe
from specc.plan.draft import build_plan_of_draft
from specc.plan.make import plan_from_recipe, plan_text
from specc.plan.plan import PLAN_FILE, Plan
from specc.plan.require import check_required
from specc.plan.sources import Sources
from specc.probe.heads import given_here
from specc.progress import Progress
from specc.recipe.load import recipe_from_file
from specc.report.bundle_report import write_bundle_report
from specc.stage_keys import StageKeys
from specc.stages import Stage
from specc.stored import (
    compiled_from_plan,
    head_from_folder,
    lowered_from_plan,
    makes_whole_step,
    tokenizer_from_source,
    whole_engine_from_graphs,
    whole_graph_from_graphs,
)


@dataclass(frozen=True)
class BuildRequest:
    """What a user asks of a build.

    Attributes:
        recipe: the recipe's file.
        overrides: `key=value` of `--set`, in order.
        out: folder of bundles; the bundle is `out/<recipe name>`.
        stop_after: the last stage; `publish` is the whole build.
        locked: sources and tools must be those of the lock file.
        lock: the lock file; None is that of the bundle at the destination.
        offline: the hub is not asked.
        rehash: remembered digests are not trusted.
        kernels: folder that `specc kernels build` made; None looks into the store, and compiles what is not there.
    """

    recipe: Path
    overrides: tuple[str, ...]
    out: Path
    stop_after: Stage
    locked: bool
    lock: Path | None
    offline: bool
    rehash: bool
    kernels: Path | None = None


@dataclass(frozen=True)
class BuildResult:
    """Where the result of the last stage lies: plan.json, a folder of the store, or the bundle.

    Attributes:
        plan: of the build.
        path: of the result.
        changed: False when the same bundle was already there.
        pending: files of the sources that nothing has read yet, so that their digests are not known.
    """

    plan: Plan
    path: Path
    changed: bool
    pending: tuple[str, ...] = ()


def build(request: BuildRequest, progress: Progress, on_wait: Callable[[str], None]) -> BuildResult:
    """Run the stages up to `request.stop_after`.

    Args:
        request: what to build.
        progress: told about the long stages.
        on_wait: told what another process is building when this one has to wait for it.

    Raises:
        SpeccError: whatever a stage refuses.
    """
    recipe = recipe_from_file(request.recipe, request.overrides)
    choices_from_recipe(recipe)  # refuses what this version cannot build before a checkpoint is fetched
    sources = checked_sources(recipe, request.recipe.parent, offline=request.offline)
    plan = plan_from_recipe(recipe, sources.target, sources.of_draft, given_here())
    check_head(recipe, request.recipe.parent, offline=request.offline)
    check_required(recipe, sum(item.bytes for item in plan.memory), plan.prediction)
    certify = request_from_choice(recipe.certify, request.recipe.parent)
    destination = request.out / plan.name
    if request.stop_after == "plan":
        return BuildResult(plan, written_plan(plan, request.out), changed=True)
    if request.stop_after == "layout":
        return BuildResult(plan, written_layout(plan, sources, request.out), changed=True)
    with Store(rehash=request.rehash, on_wait=on_wait, progress=progress) as store:
        pending = request.stop_after == "lower" and not request.locked and reads_no_weight(plan, sources)
        compiles = request.stop_after != "lower"
        lacks = missing_builder(plan) if compiles else ()
        kernels = kernels_for_plan(plan, request.kernels, store, progress) if compiles and not lacks else None
        lock = lock_from_plan(plan, sources, store.digests.identity if pending else store.digests.sha256, kernels)
        locked = locked_from_request(request, destination, lock)
        texts = calibration_texts(plan, recipe.target, request.recipe.parent)
        keys = StageKeys(plan, lock, texts=texts)
        pinned = {} if locked is None else locked.timing_caches
        inputs = Inputs(plan, sources.target, lock, keys, store, progress, texts, kernels, pinned)
        models = (inputs, *draft_inputs(inputs, sources, recipe, request.recipe.parent))
        if lacks or not compiles:
            lowered = tuple(lowered_from_plan(model) for model in models)
            if makes_whole_step(plan):
                whole_graph_from_graphs(*models)
            if lacks:
                raise built_elsewhere(plan, lacks, request.kernels, store, progress)
            return BuildResult(plan, lowered[0], changed=True, pending=pending_files(lock))
        tokenizer = tokenizer_from_source(inputs)  # first: nothing before this has built it, and compiling takes long
        engines = tuple(compiled_from_plan(model) for model in models)
        if sources.head is not None:
            engines += (head_from_folder(inputs, sources.head),)
        if makes_whole_step(plan):
            engines += (whole_engine_from_graphs(*models),)
        if request.stop_after == "compile":
            return BuildResult(plan, engines[0], changed=True)
        gate = recipe.place("require", "min_speedup")
        changed = bundle_from_engines(inputs, (*engines, tokenizer), destination, certify, gate)
        return BuildResult(plan, destination, changed)


def plan_from_file(recipe_file: Path, overrides: tuple[str, ...], *, offline: bool) -> Plan:
    """Return the plan of a recipe's file: everything that `build` would decide, and refuse, before it reads weights."""
    recipe = recipe_from_file(recipe_file, overrides)
    choices_from_recipe(recipe)
    sources = checked_sources(recipe, recipe_file.parent, offline=offline)
    plan = plan_from_recipe(recipe, sources.target, sources.of_draft, given_here())
    check_head(recipe, recipe_file.parent, offline=offline)
    return plan


def written_plan(plan: Plan, out: Path) -> Path:
    """Write `<name>.plan.json` into the folder of bundles."""
    file = out / f"{plan.name}.{PLAN_FILE}"
    with coded_failures(file):
        out.mkdir(parents=True, exist_ok=True)
        replace_text(file, plan_text(plan))
    return file


def written_layout(plan: Plan, sources: Sources, out: Path) -> Path:
    """Write `<name>.layout/`: what a checkpoint will consist of, without its weights."""
    models: list[tuple[Plan, SourceCheckpoint | HeadFolder]] = [(plan, sources.target)]
    draft = build_plan_of_draft(plan)
    if draft is not None and sources.draft is not None:
        models.append((draft, sources.draft))
    if sources.head is not None:
        models.append((plan, sources.head))
    backend = CHECKPOINT_BACKENDS.get(plan.backend.name)
    return written_outline(backend, plan, models, out, write_deployment)


def locked_from_request(request: BuildRequest, destination: Path, lock: RecipeLock) -> RecipeLock | None:
    """Return the lock file that the build is held against; None without `--locked`.

    Raises:
        SpeccError: SPC610 something differs; or what `read_lock` raises.
    """
    if not request.locked:
        return None
    file = request.lock or destination / LOCK_FILE
    locked = read_lock(file)
    check_lock(locked, lock, str(file))
    return locked


def bundle_from_engines(
    inputs: Inputs, made: tuple[Path, ...], destination: Path, certify: CertifyRequest | None, gate: str
) -> bool:
    """Assemble, certify, report on and publish the bundle; return whether the destination changed.

    Args:
        inputs: of the target.
        made: the store's folders: engines of the target, of the draft where there is one, and the tokenizer's files.
        destination: of the bundle.
        certify: what to check; None for nothing.
        gate: where the recipe requires a speed-up: by the step costs that were just measured it must hold too.
    """
    *engines, tokenizer = made
    with staging_folder(destination) as staging:
        write_bundle(staging, inputs.plan, inputs.lock, engines=tuple(engines), tokenizer=tokenizer, store=inputs.store)
        pass_gate(staging, destination, certify, inputs.progress)
        # an unchanged bundle keeps the certificate that was published with it
        check_measured_speedup(staging if (staging / CERTIFICATE_FILE).is_file() else destination, gate)
        write_bundle_report(staging)
        changed = publish_bundle(staging, destination, inputs.store.digests)
    write_bundle_report(destination)  # of an unchanged bundle it may tell of a new certificate
    return changed
