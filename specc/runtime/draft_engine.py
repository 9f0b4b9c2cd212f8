"""The draft engine of a bundle: loaded beside the target's, and the drafter that drives it."""

from __future__ import annotations

from pathlib import Path

from specc.bundle.drafts import ModelDraftSpec, SelfDraftSpec
from specc.bundle.manifest import MANIFEST_FILE, EngineSpec, EngineVariant, Manifest
from specc.errors import SpeccError
from specc.runtime.call_costs import EngineCosts
from specc.runtime.drafters import BurstEngine, EngineDrafter
from specc.runtime.runners import Companions, round_from_runners, runner_from_engine
from specc.runtime.runners.runner import TargetRunner


def draft_engine(manifest: Manifest, bundle: Path, variant: EngineVariant = "main") -> EngineSpec | None:
    """Return the draft engine of a variant that the manifest's draft needs, None where it needs none.

    Raises:
        SpeccError: SPC713 the manifest lacks it.
    """
    draft = manifest.draft
    if not isinstance(draft, ModelDraftSpec | SelfDraftSpec):
        return None
    if variant == "unrolled" and not (isinstance(draft, ModelDraftSpec) and draft.steps == "unrolled"):
        return None
    for engine in manifest.engines:
        if engine.role == "draft" and engine.variant == variant:
            return engine
    raise SpeccError(
        "SPC713",
        f"{bundle / MANIFEST_FILE} engines",
        f"engines are {[(engine.role, engine.variant) for engine in manifest.engines]}",
        f"draft.kind {draft.kind} needs a draft engine of the {variant} variant",
        "build the bundle again",
    )


def draft_runner_from_bundle(
    bundle: Path, manifest: Manifest, target: TargetRunner, threads: int | None
) -> TargetRunner | None:
    """Load the draft engine of a bundle, None where it has none.

    Args:
        bundle: its folder.
        manifest: of the bundle.
        target: the target's runner; a draft of its first layers shares its caches.
        threads: of engines that run on the CPU; None leaves it to them.

    Raises:
        SpeccError: SPC713 the engine cannot be executed here; others as the runner says.
    """
    engine = draft_engine(manifest, bundle)
    if engine is None:
        return None
    shared = target if manifest.draft.kind == "self" else None
    return runner_from_engine(bundle, engine, threads, Companions(caches_of=shared, stream_of=target))


def burst_runner_from_bundle(
    bundle: Path, manifest: Manifest, draft: TargetRunner | None, threads: int | None
) -> TargetRunner | None:
    """Load the unrolled draft engine of a bundle over the caches of the single-step one, None where it has none.

    Args:
        bundle: its folder.
        manifest: of the bundle.
        draft: the runner of the draft engine's main variant.
        threads: of engines that run on the CPU; None leaves it to them.

    Raises:
        SpeccError: SPC713 the engine cannot be executed here; others as the runner says.
    """
    engine = draft_engine(manifest, bundle, "unrolled")
    beside = Companions(caches_of=draft, stream_of=draft)
    return None if engine is None else runner_from_engine(bundle, engine, threads, beside)


def round_runner_from_bundle(
    bundle: Path, manifest: Manifest, target: TargetRunner, draft: TargetRunner | None, threads: int | None
) -> TargetRunner | None:
    """Return what runs whole rounds: the engine that does, loaded, or on GPUs the two engines; None without either.

    Args:
        bundle: its folder.
        manifest: of the bundle.
        target: the target's runner.
        draft: the runner of the draft engine's main variant.
        threads: of engines that run on the CPU; None leaves it to them.

    Raises:
        SpeccError: SPC713 the engine cannot be executed here; others as the runner says.
    """
    if draft is None or not isinstance(manifest.draft, ModelDraftSpec):
        return None
    engine = whole_engine(manifest)
    if engine is not None:
        beside = Companions(caches_of=target, draft_caches_of=draft, stream_of=target)
        return runner_from_engine(bundle, engine, threads, beside)
    if manifest.draft.steps != "whole":
        return round_from_runners(target, draft, manifest.limits.max_gamma)
    raise SpeccError(
        "SPC713",
        f"{bundle / MANIFEST_FILE} engines",
        f"engines are {[(engine.role, engine.variant) for engine in manifest.engines]}",
        "draft.steps whole needs an engine that drafts and verifies in one call",
        "build the bundle again",
    )


def whole_engine(manifest: Manifest) -> EngineSpec | None:
    """Return the engine that drafts and verifies in one call, None where the manifest has none."""
    return next((engine for engine in manifest.engines if engine.variant == "whole"), None)


def drafter_from_engine(
    manifest: Manifest,
    runner: TargetRunner | None,
    burst_runner: TargetRunner | None,
    costs: EngineCosts,
    vocab_size: int,
) -> EngineDrafter | None:
    """Return the drafter over loaded draft engines, None without one.

    Args:
        manifest: its draft states kind and context.
        runner: the draft engine.
        burst_runner: the unrolled one, over the same caches; None where there is none.
        costs: of the calls of all engines.
        vocab_size: ids that a draft may have.
    """
    draft = manifest.draft
    if runner is None or costs.draft is None or not isinstance(draft, ModelDraftSpec | SelfDraftSpec):
        return None
    return EngineDrafter(
        runner,
        manifest.limits,
        context=draft.context,
        vocab_size=vocab_size,
        costs=costs.draft,
        burst=None if burst_runner is None or costs.burst is None else BurstEngine(burst_runner, costs.burst),
        shares_caches=draft.kind == "self",
    )
