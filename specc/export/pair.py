"""What an export starts from: the choices of a recipe, and the numbers that planning found for them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from specc.bundle.manifest import LimitsSpec
from specc.bundle.read import open_bundle
from specc.bundle.record import record_from_file
from specc.plan.plan import PLAN_FILE, Plan
from specc.plan.prediction import Unpredicted
from specc.plan.preview import Preview
from specc.plan.trtllm_plan import BatchDrafts
from specc.plan.trtllm_speculation import least_accepted, schedule_from_prediction
from specc.recipe.load import recipe_from_file, recipe_from_text
from specc.recipe.models import HeadDraft, ModelChoice
from specc.recipe.schema import Recipe

UNQUANTIZED: Final = (None, "f32", "f16", "bf16")
STORED: Final = {"fp8": ("fp8_e4m3",), "nvfp4": ("fp4_e2m1",), "w4a16": ("int4", "uint4")}
"""By scheme, how a checkpoint stores such weights."""
Planned: TypeAlias = Callable[[Path], Plan | Preview]


@dataclass(frozen=True)
class ExportedPair:
    """One pair.

    Attributes:
        recipe: the choices; of a bundle, those it was built from.
        target: the model's reference, without `hf://`.
        draft: of the draft model or head; None where none drafts.
        limits: as planned.
        schedule: drafts by batch from the cost model, ascending from batch 1.
        min_accepted: accepted tokens a step below which speculation loses; None: the recipe never falls back.
        quantizes: the recipe asks for weights that its checkpoints do not store, which the servers would not make.
    """

    recipe: Recipe
    target: str
    draft: str | None
    limits: LimitsSpec
    schedule: tuple[BatchDrafts, ...]
    min_accepted: float | None
    quantizes: bool

    @property
    def drafts(self) -> int:
        """Tokens drafted a step; 0 decodes autoregressively."""
        return self.limits.default_gamma


def pair_from_path(path: Path, overrides: tuple[str, ...], planned: Planned) -> ExportedPair:
    """Return the pair of a recipe's file or a bundle's folder.

    Args:
        path: where it is.
        overrides: `--set` of a recipe; of a bundle there are none.
        planned: plans a recipe, or previews it.

    Raises:
        SpeccError: whatever recipe, bundle or plan are refused for.
    """
    if path.is_dir():
        open_bundle(path, "sizes")
        plan = record_from_file(Plan, path / PLAN_FILE)
        return _pair(recipe_from_text(json.dumps(plan.recipe), str(path / PLAN_FILE)), plan)
    return _pair(recipe_from_file(path, overrides), planned(path))


def _pair(recipe: Recipe, plan: Plan | Preview) -> ExportedPair:
    outlook = plan.prediction or Unpredicted("not predicted", "nothing was asked")
    limits = plan.limits
    drafts = limits.default_gamma
    return ExportedPair(
        recipe=recipe,
        target=recipe.target.model.removeprefix("hf://"),
        draft=_draft_reference(recipe),
        limits=limits,
        schedule=schedule_from_prediction(outlook, limits.max_batch, drafts) if drafts else (),
        min_accepted=least_accepted(recipe, outlook),
        quantizes=quantizes_more(recipe, plan if isinstance(plan, Plan) else None),
    )


def quantizes_more(recipe: Recipe, plan: Plan | None) -> bool:
    """Return whether a scheme is not how a checkpoint stores its weights; without a plan it counts as such."""
    stored = {} if plan is None else {"target": plan.target.facts.stored_dtype}
    if plan is not None and plan.draft_model is not None:
        stored["draft"] = plan.draft_model.model.facts.stored_dtype
    schemes = {"target": recipe.target.scheme_name}
    if isinstance(recipe.draft, ModelChoice):
        schemes["draft"] = recipe.draft.scheme_name
    return any(
        scheme not in UNQUANTIZED and stored.get(role) not in STORED.get(scheme or "", ())
        for role, scheme in schemes.items()
    )


def _draft_reference(recipe: Recipe) -> str | None:
    model = recipe.draft.model if isinstance(recipe.draft, ModelChoice | HeadDraft) else None
    return None if model is None else model.removeprefix("hf://")
