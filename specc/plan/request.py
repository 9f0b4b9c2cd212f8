"""What `specc plan` answers: the plan of a recipe that this version builds, a preview of one that it does not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from specc.checkpoint.config_facts import facts_from_config_file
from specc.checkpoint.facts import ModelFacts
from specc.errors import SpeccError
from specc.plan.choices import choices_from_recipe
from specc.plan.compare import Variant, variants_from_text
from specc.plan.make import plan_from_recipe
from specc.plan.measured import acceptance_from_file
from specc.plan.outlook import Given
from specc.plan.plan import Plan
from specc.plan.preview import Facts, Preview, preview_from_recipe
from specc.plan.require import check_required
from specc.plan.sources import OpenSources, source_from_choice
from specc.plan.unfit import unfit_error
from specc.recipe.load import recipe_from_file
from specc.recipe.models import ModelChoice, ModelDraft
from specc.recipe.schema import Recipe
from specc.recipe.tree import OVERRIDE


@dataclass(frozen=True)
class PlanRequest:
    """What a user asks of planning.

    Attributes:
        recipe: the recipe's file.
        overrides: `key=value` of `--set`, in order.
        config: the target's config.json in place of its checkpoint; None: the checkpoint.
        draft_config: the same of the draft model.
        acceptance: acceptance.json; None: published priors.
        offline: the hub is not asked.
    """

    recipe: Path
    overrides: tuple[str, ...] = ()
    config: Path | None = None
    draft_config: Path | None = None
    acceptance: Path | None = None
    offline: bool = False


def planned_from_request(request: PlanRequest, given: Given, opened: OpenSources) -> Plan | Preview:
    """Return the plan, or the preview where this version does not build the recipe or a config.json stands for models.

    Args:
        request: what to plan.
        given: measurements; the acceptance of the request replaces its own.
        opened: opens the checkpoints.

    Raises:
        SpeccError: whatever recipe, checkpoints or plan are refused for; SPC301 to SPC303 only where the models' facts
            cannot be had either.
    """
    recipe = recipe_from_file(request.recipe, request.overrides)
    refused = refusal_of_recipe(recipe)
    given = _with_acceptance(given, request)
    if refused is None and request.config is None and request.draft_config is None:
        sources = opened(recipe, request.recipe.parent, offline=request.offline)
        return plan_from_recipe(recipe, sources.target, sources.of_draft, given)
    return preview_from_recipe(recipe, _facts(request, recipe, refused), given, _reason(recipe))


def preview_from_request(request: PlanRequest, given: Given) -> Preview:
    """Return the preview of a recipe that this version builds, but whose plan is refused: it does not fit, say.

    Raises:
        SpeccError: as `planned_from_request`.
    """
    recipe = recipe_from_file(request.recipe, request.overrides)
    return preview_from_recipe(recipe, _facts(request, recipe, None), _with_acceptance(given, request), _reason(recipe))


def compared_from_request(request: PlanRequest, given: Given, axis: str) -> tuple[tuple[Variant, Preview], ...]:
    """Return a preview of every variant that `--compare` names; the models are opened once.

    Raises:
        SpeccError: SPC308 no such axis; what `planned_from_request` raises.
    """
    own = recipe_from_file(request.recipe, request.overrides)
    variants = variants_from_text(axis, own)
    recipes = [_recipe_of_variant(request, axis, variant) for variant in variants]
    facts = _facts(request, own, refusal_of_recipe(own))
    given = _with_acceptance(given, request)
    return tuple(
        (variant, preview_from_recipe(recipe, _of_variant(facts, variant), given, _reason(recipe)))
        for variant, recipe in zip(variants, recipes, strict=True)
    )


def _recipe_of_variant(request: PlanRequest, axis: str, variant: Variant) -> Recipe:
    try:
        return recipe_from_file(request.recipe, (*request.overrides, *variant.overrides))
    except SpeccError as error:
        if not error.place.startswith(OVERRIDE):
            raise
        raise SpeccError(error.code, f"--compare {axis}", error.got, error.why, error.fix) from None


def check_planned(request: PlanRequest, planned: Plan | Preview) -> None:
    """Refuse what was planned and shown, and can never be built as it stands, or misses the recipe's `require`.

    What only this version does not build passes: planning it is the point.

    Raises:
        SpeccError: SPC302 or SPC303 the back end does not do that, whatever the version; SPC305 it does not fit;
            SPC307 a gate is not met.
    """
    recipe = recipe_from_file(request.recipe, request.overrides)
    refused = refusal_of_recipe(recipe)
    if refused is not None and (refused.code == "SPC302" or (refused.code == "SPC303" and recipe.backend is not None)):
        raise refused
    if planned.fit is not None and planned.fit.headroom_bytes < 0:
        raise unfit_error(recipe, planned.fit, planned.memory)
    check_required(recipe, sum(item.bytes for item in planned.memory), planned.prediction)


def refusal_of_recipe(recipe: Recipe) -> SpeccError | None:
    """Return why this version does not build the recipe, None where it does; no checkpoint is looked at."""
    try:
        choices_from_recipe(recipe)
    except SpeccError as error:
        return error
    return None


def _reason(recipe: Recipe) -> str | None:
    """Return why this version makes no bundle of the recipe, also where it can lower it; None where it makes one."""
    refused = refusal_of_recipe(recipe)
    return None if refused is None else f"{refused.code} {refused.place}: {refused.got}; {refused.why}"


def _with_acceptance(given: Given, request: PlanRequest) -> Given:
    return given if request.acceptance is None else replace(given, acceptance=acceptance_from_file(request.acceptance))


def _of_variant(facts: Facts, variant: Variant) -> Facts:
    return facts if variant.drafter is None else Facts(facts.target, None, variant.drafter)


def _facts(request: PlanRequest, recipe: Recipe, refused: SpeccError | None) -> Facts:
    """Return the models' facts: of a given config.json, else of the checkpoint."""
    try:
        target = _facts_of(recipe.target, request.config, request)
        draft = _facts_of(recipe.draft, request.draft_config, request) if isinstance(recipe.draft, ModelDraft) else None
    except SpeccError as error:
        if refused is None or error.code in ("SPC210", "SPC211", "SPC212"):
            raise
        fix = f"{refused.fix}; to see memory and prediction all the same, give config.json by --config, --draft-config"
        raise SpeccError(refused.code, refused.place, refused.got, refused.why, fix) from error
    return Facts(target, draft)


def _facts_of(choice: ModelChoice, config: Path | None, request: PlanRequest) -> ModelFacts:
    if config is not None:
        return facts_from_config_file(config)
    return source_from_choice(choice, request.recipe.parent, offline=request.offline).facts
