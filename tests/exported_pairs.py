"""Pairs to export: a recipe, and the numbers that a plan would have found for it."""

from __future__ import annotations

from specc.bundle.manifest import LimitsSpec
from specc.export.pair import ExportedPair, quantizes_more
from specc.plan.trtllm_plan import BatchDrafts
from specc.recipe.load import recipe_from_text

RECIPE = """\
recipe: 1
name: pair
target: {model: org/target}
draft: {kind: model, model: org/draft}
gpu: {name: h100-sxm-80gb, count: 2}
"""


def exported_pair(*overrides: str, schedule: tuple[BatchDrafts, ...] = (), drafts: int = 4) -> ExportedPair:
    recipe = recipe_from_text(RECIPE, "r.yaml", overrides)
    draft = getattr(recipe.draft, "model", None)
    limits = LimitsSpec(32, 1024, 512, 1536, 1024, 8, drafts)
    return ExportedPair(recipe, recipe.target.model, draft, limits, schedule, 0.5, quantizes_more(recipe, None))
