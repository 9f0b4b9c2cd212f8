"""Run everything that can be run on a recipe: opening, planning, and each rule whose needs are met."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from specc.checkpoint.head_folder import HeadFolder
from specc.doctor import RULES
from specc.doctor.evidence import ModelEvidence, PairEvidence, model_evidence
from specc.doctor.finding import Finding, Fix, Severity, finding_from_error
from specc.doctor.head_kind import head_kind
from specc.doctor.measured_quality import measured_quality
from specc.doctor.rule import unmet_needs
from specc.errors import SpeccError
from specc.plan.choices import choices_from_recipe
from specc.plan.make import plan_from_recipe
from specc.plan.plan import Plan
from specc.plan.sources import head_from_choice
from specc.plan.trtllm_disk import with_disk_of_build
from specc.recipe.load import recipe_from_file
from specc.recipe.models import DraftChoice, Eagle3Draft, HeadDraft, ModelChoice, ModelDraft
from specc.recipe.schema import Recipe


@dataclass(frozen=True)
class Report:
    """What a check says.

    Attributes:
        findings: errors, warnings, notes; each group in the order of the rules.
        skipped: name of a rule that could not run, and what it lacked.
        plan: None where planning refused the recipe.
    """

    findings: tuple[Finding, ...]
    skipped: tuple[tuple[str, tuple[str, ...]], ...]
    plan: Plan | None

    def of(self, severity: Severity) -> tuple[Finding, ...]:
        """Return the findings of one severity."""
        return tuple(finding for finding in self.findings if finding.severity == severity)


def report_from_file(file: Path, overrides: tuple[str, ...], *, offline: bool, bundles: Path | None = None) -> Report:
    """Check a recipe's file; what a user did wrong is a finding, never raised.

    Args:
        file: the recipe.
        overrides: `key=value` of each `--set`.
        offline: the hub is not asked.
        bundles: folder of bundles, where an earlier build of the recipe may have been measured; None: nowhere.
    """
    try:
        recipe = recipe_from_file(file, overrides)
    except SpeccError as error:
        return Report((finding_from_error(error),), (), None)
    target = model_evidence("target", recipe.target, file.parent, offline=offline)
    head: HeadFolder | SpeccError | None
    try:
        head = head_from_choice(recipe.draft, file.parent)
    except SpeccError as error:
        head = error
    stated = _opened_choice(recipe.draft, head)
    draft = None if stated is None else model_evidence("draft", stated, file.parent, offline=offline)
    return report_from_evidence(recipe, target, draft, head, bundles=bundles)


def _opened_choice(draft: DraftChoice, head: HeadFolder | SpeccError | None) -> ModelChoice | None:
    """Return what of the draft is read; a head that only the server fetches from the hub is not."""
    if isinstance(draft, ModelDraft | Eagle3Draft):
        return draft
    return ModelChoice(model=head.uri) if isinstance(draft, HeadDraft) and isinstance(head, HeadFolder) else None


def report_from_evidence(
    recipe: Recipe,
    target: ModelEvidence,
    draft: ModelEvidence | None,
    head: HeadFolder | SpeccError | None = None,
    *,
    bundles: Path | None = None,
) -> Report:
    """Check a recipe whose models were read as far as they could be.

    Args:
        recipe: the user's choices.
        target: what was read of it.
        draft: what was read of it; None without one.
        head: of a drafter, or why it was refused.
        bundles: as in `report_from_file`.
    """
    plan, refused = _planned(recipe, target, draft, head)
    measured = None
    if plan is not None and target.source is not None and bundles is not None:
        measured = measured_quality(bundles / plan.name, plan, target.source)
    pair = PairEvidence(recipe, recipe.gpu.row, target, draft, plan, measured)
    ruled: list[Finding] = []
    skipped: list[tuple[str, tuple[str, ...]]] = []
    for rule in RULES:
        unmet = [need for need in unmet_needs(rule, pair) if draft is not None or need.startswith("target")]
        if unmet:
            skipped.append((rule.name, tuple(unmet)))
        elif draft is not None or not any(need.startswith("draft") or need == "tokenizers" for need in rule.needs):
            ruled += rule.findings(pair)
    opened = [
        finding for model in (target, draft) if model is not None for finding in _opened(pair.recipe, model, ruled)
    ]
    # a rule says more about the same thing than the stage that refused it
    codes = {finding.code for finding in ruled}
    planned = [finding_from_error(error) for error in refused if error.code not in codes]
    findings = (*opened, *planned, *ruled)
    ordered = tuple(f for severity in ("error", "warning", "note") for f in findings if f.severity == severity)
    return Report(ordered, tuple(skipped), plan)


def _planned(
    recipe: Recipe, target: ModelEvidence, draft: ModelEvidence | None, head: HeadFolder | SpeccError | None
) -> tuple[Plan | None, list[SpeccError]]:
    try:
        choices_from_recipe(recipe)
        if isinstance(head, SpeccError):
            return None, [] if draft is not None and draft.bare else [head]
        source = draft.source if draft is not None and isinstance(recipe.draft, ModelDraft) else None
        if target.source is None or (isinstance(recipe.draft, ModelDraft) and source is None):
            return None, []
        return plan_from_recipe(recipe, target.source, source or head), []
    except SpeccError as error:
        return None, [error]


def _opened(recipe: Recipe, model: ModelEvidence, ruled: list[Finding]) -> Iterator[Finding]:
    """Yield what opening a model refused; a head is explained by its own rule, and missing weights are a note."""
    if model.bare:
        held = "no safetensors" if model.unread else "no weights"
        evidence = (("config.json", str(model.folder)), (held, str(model.folder)))
        message = f"The {model.role}'s tensors could not be compared: only its configuration is here."
        fix = Fix("check again where the weights are, before building")
        if model.unread:
            message = f"The {model.role}'s tensors could not be compared: its weights are not in safetensors files."
            fix = Fix("check a safetensors version of these weights, where there is one")
        yield Finding("SPC349", "note", str(model.folder), evidence, message, fix)
    head = head_kind(model) is not None and model.role == "draft"
    for failure in model.failures:
        told = any(finding.code == failure.code and finding.place == str(model.folder) for finding in ruled)
        if told or head or (model.bare and failure.code == "SPC201"):
            continue
        yield finding_from_error(with_disk_of_build(failure, recipe) if model.role == "target" else failure)
