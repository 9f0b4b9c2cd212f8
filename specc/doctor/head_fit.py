"""A head's folder held against the target by commands that go on with it: what the doctor finds, as an error."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from specc.doctor.evidence import PairEvidence, model_evidence
from specc.doctor.rule import Rule, unmet_needs
from specc.doctor.rules import draft_vocabulary, drafter_head, head_rows, mask_token
from specc.errors import SpeccError
from specc.plan.outlook import Given
from specc.plan.plan import Plan
from specc.plan.preview import Preview
from specc.plan.request import PlanRequest, planned_from_request
from specc.plan.sources import Sources, head_from_choice, sources_from_recipe
from specc.recipe.load import recipe_from_file
from specc.recipe.models import ModelChoice, ModelDraft
from specc.recipe.schema import Recipe

RULES: Final[tuple[Rule, ...]] = (drafter_head.RULE, draft_vocabulary.RULE, head_rows.RULE, mask_token.RULE)
LEFT_TO_SERVER: Final = ("SPC338",)
"""A head without tap layers runs: servers take layers of their own, which only the doctor can doubt."""


def check_head(recipe: Recipe, base: Path, *, offline: bool) -> None:
    """Refuse a head that is named by its folder and does not fit the target.

    Args:
        recipe: the user's choices.
        base: relative paths start here.
        offline: the hub is not asked for the target.

    Raises:
        SpeccError: SPC337 it is of another kind, SPC339 of another width, SPC340 for other ids, SPC341 without a mask
            token: with the text that `specc check` has.
    """
    head = head_from_choice(recipe.draft, base)
    if head is not None:
        _refuse(recipe, ModelChoice(model=head.uri), base, RULES, offline=offline)


def checked_sources(recipe: Recipe, base: Path, *, offline: bool) -> Sources:
    """Return what `sources_from_recipe` does; a head that is given as a draft model is refused as what it is.

    Raises:
        SpeccError: SPC337 it is a head; else as `sources_from_recipe`.
    """
    try:
        return sources_from_recipe(recipe, base, offline=offline)
    except SpeccError:
        if isinstance(recipe.draft, ModelDraft):
            _refuse(recipe, recipe.draft, base, (drafter_head.RULE,), offline=offline)
        raise


def _refuse(recipe: Recipe, head: ModelChoice, base: Path, rules: tuple[Rule, ...], *, offline: bool) -> None:
    """Raise the first error that rules find of a head."""
    target = model_evidence("target", recipe.target, base, offline=offline)
    draft = model_evidence("draft", head, base, offline=offline)
    pair = PairEvidence(recipe, recipe.gpu.row, target, draft, plan=None)
    for rule in rules:
        for finding in () if unmet_needs(rule, pair) else rule.findings(pair):
            if finding.severity == "error" and finding.code not in LEFT_TO_SERVER:
                got = "; ".join(f"{value} ({where})" for value, where in finding.evidence)
                fix = "" if finding.fix is None else finding.fix.text
                raise SpeccError(finding.code, finding.place, got, finding.message, fix)


def planned_with_head(request: PlanRequest, given: Given) -> Plan | Preview:
    """Return what `planned_from_request` does, once a head in a folder was held against the target.

    Raises:
        SpeccError: as `planned_from_request` and `check_head`.
    """
    planned = planned_from_request(request, given, checked_sources)
    if isinstance(planned, Plan):  # a preview prices what is not built
        recipe = recipe_from_file(request.recipe, request.overrides)
        check_head(recipe, request.recipe.parent, offline=request.offline)
    return planned
