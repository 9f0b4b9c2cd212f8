"""What the stages of a build after its Plan work with, for the target and for a draft model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from specc.backends import BACKENDS, CHECKPOINT_BACKENDS
from specc.backends.aids import KernelsInUse
from specc.bundle.lock import RecipeLock, SourceFiles, lock_from_sources
from specc.bundle.store import Store
from specc.calibrate.texts import texts_from_choice
from specc.checkpoint.source import SourceCheckpoint
from specc.lower.weights import weights_stay
from specc.plan.calibration import calibration_of_plan
from specc.plan.draft import build_plan_of_draft
from specc.plan.plan import Plan
from specc.plan.sources import Sources
from specc.progress import Progress
from specc.recipe.models import ModelChoice, ModelDraft
from specc.recipe.schema import Recipe
from specc.stage_keys import StageKeys
from specc.toolchain import CALIBRATION_TOOL, base_toolchain


@dataclass(frozen=True)
class Inputs:
    """What every stage after the Plan works with, for one model: the target, or the draft.

    Attributes:
        plan: of the model; of the draft it is `build_plan_of_draft`.
        source: the checkpoint that its weights come from.
        texts: that calibration reads; none where no method of the plan looks at activations.
        kernels: of specc, that verify in the engines; None where native operators do.
        pinned: timing caches that a lock file asks for, by role.
    """

    plan: Plan
    source: SourceCheckpoint
    lock: RecipeLock
    keys: StageKeys
    store: Store
    progress: Progress
    texts: tuple[str, ...] = ()
    kernels: KernelsInUse | None = None
    pinned: Mapping[str, str] = field(default_factory=dict)


def lock_from_plan(
    plan: Plan, sources: Sources, digest_from_file: Callable[[Path], str], kernels: KernelsInUse | None
) -> RecipeLock:
    """Return the digests of all sources and the versions of all tools that this build uses.

    A build that ends with graphs over the sources' own files takes those that were never read under a name of their
    own, and hashes none of them; its objects are apart from those of builds that publish, whose keys hold digests.
    """
    toolchain = base_toolchain() | BACKENDS[plan.backend.name].toolchain()
    draft = build_plan_of_draft(plan)
    if any(of is not None and of.graph.calibrates for of in (plan, draft)):
        toolchain |= BACKENDS[CALIBRATION_TOOL].toolchain()
    opened = {"target": sources.target} | ({} if sources.draft is None else {"draft": sources.draft})
    files = {role: SourceFiles(source.uri, source.revision, source.files) for role, source in opened.items()}
    if sources.head is not None:
        files["draft"] = SourceFiles(sources.head.uri, None, sources.head.files)
    return lock_from_sources(files, toolchain, digest_from_file, "" if kernels is None else kernels.digest)


def reads_no_weight(plan: Plan, sources: Sources) -> bool:
    """Return whether lowering leaves the weights of all models in their files, so that nothing needs their digests."""
    backend = CHECKPOINT_BACKENDS.get(plan.backend.name)
    if backend is not None:
        models = [(plan, sources.target), (build_plan_of_draft(plan), sources.draft)]
        return not any(backend.parts(of, source) for of, source in models if of is not None and source is not None)
    draft = build_plan_of_draft(plan)
    own = draft is not None and sources.draft is not None and not weights_stay(draft, sources.draft)
    return weights_stay(plan, sources.target) and not own


def calibration_texts(plan: Plan, choice: ModelChoice, base: Path) -> tuple[str, ...]:
    """Return the texts that the build of one model calibrates with; none where no method looks at activations."""
    return () if calibration_of_plan(plan) is None else texts_from_choice(choice.calibration, base)


def draft_inputs(inputs: Inputs, sources: Sources, recipe: Recipe, base: Path) -> tuple[Inputs, ...]:
    """Return what the draft's stages work with; nothing where no model drafts."""
    plan = build_plan_of_draft(inputs.plan)
    if plan is None or sources.draft is None:
        return ()
    texts = calibration_texts(plan, recipe.draft, base) if isinstance(recipe.draft, ModelDraft) else ()
    keys = StageKeys(plan, inputs.lock, source="draft", texts=texts)
    return (replace(inputs, plan=plan, source=sources.draft, keys=keys, texts=texts, kernels=None),)
