"""The page to read first: a build as its stages, in order.

    recipe.yaml -> Recipe -> source checkpoint -> Plan -> weights -> graphs -> engines -> bundle -> certificate

Each stage is one call below. What it makes lies in the content-addressed store under a key of everything that shaped
it, so a killed build resumes and a changed gamma writes no weights again. After the Plan nothing is decided.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias

from specc.assembly import write_bundle
from specc.backends import BACKENDS
from specc.backends.engine_list import write_engine_list
from specc.bundle.certificate import CERTIFICATE_FILE, Certificate
from specc.bundle.lock import LOCK_FILE, RecipeLock, SourceFiles, check_lock, lock_from_sources, read_lock
from specc.bundle.manifest import MANIFEST_FILE
from specc.bundle.publish import publish_bundle, staging_folder
from specc.bundle.record import record_from_file
from specc.bundle.store import Store
from specc.certify.certificate import CertifyRequest, certify_bundle, refuse_failed
from specc.checkpoint.open import source_from_reference
from specc.checkpoint.source import SourceCheckpoint
from specc.checkpoint.tokenizer_files import write_tokenizer
from specc.errors import SpeccError
from specc.lower.graphs import lowered_in_folder, write_graphs
from specc.lower.weights import weight_bytes, write_weights
from specc.plan.choices import choices_from_recipe
from specc.plan.make import plan_from_recipe, plan_text
from specc.plan.plan import PLAN_FILE, Plan
from specc.progress import Progress
from specc.recipe.load import recipe_from_file
from specc.recipe.schema import Recipe
from specc.stage_keys import StageKeys
from specc.toolchain import base_toolchain

Stage: TypeAlias = Literal["plan", "lower", "compile", "publish"]
STAGES: Final[tuple[Stage, ...]] = ("plan", "lower", "compile", "publish")


def stage_from_name(name: str) -> Stage:
    """Return the stage of a name.

    Raises:
        SpeccError: SPC906 there is none of that name.
    """
    for stage in STAGES:
        if stage == name:
            return stage
    raise SpeccError(
        "SPC906", "--stop-after", f"got {name!r}", f"the stages are {', '.join(STAGES)}", "choose one of them"
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
    """

    recipe: Path
    overrides: tuple[str, ...]
    out: Path
    stop_after: Stage
    locked: bool
    lock: Path | None
    offline: bool
    rehash: bool


@dataclass(frozen=True)
class BuildResult:
    """Where the result of the last stage lies: plan.json, a folder of the store, or the bundle.

    Attributes:
        plan: of the build.
        path: of the result.
        changed: False when the same bundle was already there.
    """

    plan: Plan
    path: Path
    changed: bool


@dataclass(frozen=True)
class Inputs:
    """What every stage after the Plan works with."""

    plan: Plan
    source: SourceCheckpoint
    lock: RecipeLock
    keys: StageKeys
    store: Store
    progress: Progress


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
    source = source_from_recipe(recipe, request.recipe.parent, offline=request.offline)
    plan = plan_from_recipe(recipe, source)
    destination = request.out / plan.name
    if request.stop_after == "plan":
        return BuildResult(plan, written_plan(plan, request.out), changed=True)
    with Store(rehash=request.rehash, on_wait=on_wait, progress=progress) as store:
        lock = lock_from_plan(plan, source, store)
        if request.locked:
            lock_file = request.lock or destination / LOCK_FILE
            check_lock(read_lock(lock_file), lock, str(lock_file))
        inputs = Inputs(plan, source, lock, StageKeys(plan, lock), store, progress)
        if request.stop_after == "lower":
            return BuildResult(plan, graphs_from_plan(inputs), changed=True)
        engines = engines_from_graphs(inputs)
        if request.stop_after == "compile":
            return BuildResult(plan, engines, changed=True)
        return BuildResult(plan, destination, changed=bundle_from_engines(inputs, engines, destination))


def plan_from_file(recipe_file: Path, overrides: tuple[str, ...], *, offline: bool) -> Plan:
    """Return the plan of a recipe's file: everything that `build` would decide, and refuse, before it reads weights."""
    recipe = recipe_from_file(recipe_file, overrides)
    choices_from_recipe(recipe)
    return plan_from_recipe(recipe, source_from_recipe(recipe, recipe_file.parent, offline=offline))


def source_from_recipe(recipe: Recipe, base: Path, *, offline: bool) -> SourceCheckpoint:
    """Open the target's source checkpoint: configurations and headers; relative paths start at `base`."""
    target = recipe.target
    return source_from_reference(
        target.model,
        base=base,
        revision=target.revision,
        tokenizer=target.tokenizer,
        chat_template=target.chat_template,
        offline=offline,
    )


def written_plan(plan: Plan, out: Path) -> Path:
    """Write `<name>.plan.json` into the folder of bundles."""
    file = out / f"{plan.name}.{PLAN_FILE}"
    out.mkdir(parents=True, exist_ok=True)
    file.write_text(plan_text(plan), encoding="utf-8")
    return file


def lock_from_plan(plan: Plan, source: SourceCheckpoint, store: Store) -> RecipeLock:
    """Return the digests of all sources and the versions of all tools that this build uses."""
    toolchain = base_toolchain() | BACKENDS[plan.backend.name].toolchain()
    return lock_from_sources(
        {"target": SourceFiles(source.uri, source.revision, source.files)}, toolchain, store.digests
    )


def weights_from_source(inputs: Inputs) -> Path:
    """Store the weights as external data of graphs: links into the source where its bytes serve, else written once."""

    def produce(folder: Path) -> None:
        write_weights(inputs.plan, inputs.source, folder, inputs.store.place, inputs.progress)

    needs = weight_bytes(inputs.plan, inputs.source)
    return inputs.store.obtain(inputs.keys.weights, produce, f"weights of {inputs.plan.name}", needs)


def graphs_from_plan(inputs: Inputs) -> Path:
    """Store the lowered ONNX graphs over their weights."""

    def produce(folder: Path) -> None:
        write_graphs(inputs.plan, weights_from_source(inputs), folder, inputs.store.place)

    return inputs.store.obtain(inputs.keys.graphs, produce, f"graphs of {inputs.plan.name}")


def engines_from_graphs(inputs: Inputs) -> Path:
    """Store the engines that the back end compiles."""

    def produce(folder: Path) -> None:
        lowered = lowered_in_folder(graphs_from_plan(inputs))
        backend = BACKENDS[inputs.plan.backend.name]
        engines = backend.engines_from_lowered(lowered, inputs.plan, folder, inputs.store.place, inputs.progress)
        write_engine_list(engines, folder)

    return inputs.store.obtain(inputs.keys.engines, produce, f"engines of {inputs.plan.name}")


def tokenizer_from_source(inputs: Inputs) -> Path:
    """Store the tokenizer's files."""

    def produce(folder: Path) -> None:
        write_tokenizer(inputs.source, folder)

    return inputs.store.obtain(inputs.keys.tokenizer, produce, f"tokenizer of {inputs.plan.name}")


def bundle_from_engines(inputs: Inputs, engines: Path, destination: Path) -> bool:
    """Assemble, certify and publish the bundle; return whether the destination changed."""
    tokenizer = tokenizer_from_source(inputs)
    with staging_folder(destination) as staging:
        write_bundle(staging, inputs.plan, inputs.lock, engines=engines, tokenizer=tokenizer, store=inputs.store)
        if not is_certified(destination, staging / MANIFEST_FILE):
            request = CertifyRequest(verify="sizes")  # the digests are of this moment
            refuse_failed(certify_bundle(staging, request, inputs.progress), destination)
        return publish_bundle(staging, destination, inputs.store.digests)


def is_certified(bundle: Path, manifest: Path) -> bool:
    """Return whether a published bundle has this very manifest and a certificate of it that did not fail."""
    published, certificate = bundle / MANIFEST_FILE, bundle / CERTIFICATE_FILE
    if not (published.is_file() and certificate.is_file() and published.read_bytes() == manifest.read_bytes()):
        return False
    try:
        return record_from_file(Certificate, certificate).status != "failed"
    except SpeccError:
        return False
