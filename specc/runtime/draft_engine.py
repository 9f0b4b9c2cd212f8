"""The draft engine of a bundle: loaded beside the target's, and the drafter that drives it."""

from __future__ import annotations

from pathlib import Path

from specc.bundle.drafts import ModelDraftSpec, SelfDraftSpec
from specc.bundle.manifest import MANIFEST_FILE, EngineSpec, Manifest
from specc.errors import SpeccError
from specc.runtime.call_costs import CallCosts
from specc.runtime.drafters import BatchDrafter, EngineDrafter
from specc.runtime.runners import runner_from_engine
from specc.runtime.runners.runner import TargetRunner


def draft_engine(manifest: Manifest, bundle: Path) -> EngineSpec | None:
    """Return the draft engine that the manifest's kind of draft needs, None where it needs none.

    Raises:
        SpeccError: SPC713 the manifest lacks it.
    """
    if not isinstance(manifest.draft, ModelDraftSpec | SelfDraftSpec):
        return None
    for engine in manifest.engines:
        if engine.role == "draft" and engine.variant == "main":
            return engine
    raise SpeccError(
        "SPC713",
        f"{bundle / MANIFEST_FILE} engines",
        f"engines are {[(engine.role, engine.variant) for engine in manifest.engines]}",
        f"draft.kind {manifest.draft.kind} needs a draft engine of the main variant",
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
    return runner_from_engine(bundle, engine, threads, caches_of=shared)


def drafter_from_engine(
    manifest: Manifest, runner: TargetRunner | None, costs: CallCosts | None, vocab_size: int
) -> BatchDrafter | None:
    """Return the drafter over a loaded draft engine, None without one.

    Args:
        manifest: its draft states kind and context.
        runner: the draft engine.
        costs: of its calls.
        vocab_size: ids that a draft may have.
    """
    draft = manifest.draft
    if runner is None or costs is None or not isinstance(draft, ModelDraftSpec | SelfDraftSpec):
        return None
    return EngineDrafter(
        runner,
        manifest.limits,
        context=draft.context,
        vocab_size=vocab_size,
        costs=costs,
        shares_caches=draft.kind == "self",
    )
