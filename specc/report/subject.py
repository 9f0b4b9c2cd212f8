"""What a report is about: a plan, or the preview of a recipe that this version does not build, in one form."""

from __future__ import annotations

from dataclasses import dataclass

from specc.bundle.certificate import StepCost
from specc.bundle.manifest import LimitsSpec
from specc.catalog.gpus import GPUS
from specc.doctor.finding import Finding
from specc.plan.plan import Fit, MemoryItem, Plan
from specc.plan.prediction import Outlook, Prediction, Unpredicted
from specc.plan.preview import Preview
from specc.recipe.gpu import GpuChoice


@dataclass(frozen=True)
class Measured:
    """What the certificate of a bundle measured.

    Attributes:
        machine: that ran the calls.
        target, draft: T(B,S); the draft's is empty without a draft engine.
        outlook: the prediction by these step costs; None where too few calls were measured for one.
    """

    machine: str
    target: tuple[StepCost, ...]
    draft: tuple[StepCost, ...]
    outlook: Outlook | None


@dataclass(frozen=True)
class Subject:
    """Everything that the page says, as numbers and facts.

    Attributes:
        facts: names and values of the plan's head, in order.
        draft_kind: the drafter.
        gpu, gpus: the device, and how many share every matrix.
        fit: the memory against what one GPU has; None where that is not known.
        modelled: the prediction of the cost model.
        findings: of the doctor; None where it did not run, for the reason in `unchecked`.
        refused: why this version does not build the recipe.
        measured: of a bundle; None for plans, and where nothing was measured.
    """

    name: str
    facts: tuple[tuple[str, str], ...]
    draft_kind: str
    gpu: str
    gpus: int
    limits: LimitsSpec
    memory: tuple[MemoryItem, ...]
    fit: Fit | None
    modelled: Outlook
    findings: tuple[Finding, ...] | None
    unchecked: str
    notes: tuple[str, ...]
    refused: str | None
    measured: Measured | None

    @property
    def outlook(self) -> Outlook:
        """The prediction that counts: by measured step costs where there are any."""
        measured = None if self.measured is None else self.measured.outlook
        return self.modelled if measured is None else measured

    @property
    def by_measured_calls(self) -> bool:
        """Whether the prediction that counts is by measured step costs."""
        return self.measured is not None and self.measured.outlook is not None

    @property
    def modelled_beside(self) -> Prediction | None:
        """The cost model's prediction where measured step costs stand in its place."""
        return self.modelled if self.by_measured_calls and isinstance(self.modelled, Prediction) else None


def subject_from_plan(
    planned: Plan | Preview,
    findings: tuple[Finding, ...] | None,
    *,
    unchecked: str = "",
    measured: Measured | None = None,
) -> Subject:
    """Return the subject of a report.

    Args:
        planned: what `specc plan` answers with, or the plan of a bundle.
        findings: of the doctor; None where it did not run.
        unchecked: why it did not.
        measured: of the bundle.
    """
    if isinstance(planned, Plan):
        return _subject_of_plan(planned, findings, unchecked, measured)
    limits = planned.limits
    draft = planned.draft_kind
    if planned.draft is not None:
        draft += f": {planned.draft}"
    if planned.draft_scheme is not None:
        draft += f" ({planned.draft_scheme})"
    return Subject(
        name=planned.name,
        facts=(
            ("target", f"{planned.target} ({planned.scheme})"),
            ("draft", draft),
            ("device", _device(GPUS[planned.gpu].title if planned.gpu in GPUS else planned.gpu, planned.gpus)),
            ("limits", _limits(limits)),
        ),
        draft_kind=planned.draft_kind,
        gpu=planned.gpu,
        gpus=planned.gpus,
        limits=limits,
        memory=planned.memory,
        fit=planned.fit,
        modelled=planned.prediction,
        findings=findings,
        unchecked=unchecked,
        notes=planned.notes,
        refused=planned.refused,
        measured=measured,
    )


def _subject_of_plan(
    plan: Plan, findings: tuple[Finding, ...] | None, unchecked: str, measured: Measured | None
) -> Subject:
    facts, gpu = plan.target.facts, GpuChoice.model_validate(plan.recipe["gpu"])
    draft: str = plan.draft.kind
    if plan.draft_model is not None:
        draft += f": {plan.draft_model.model.uri} ({plan.draft_model.model.scheme})"
    return Subject(
        name=plan.name,
        facts=(
            ("target", f"{plan.target.uri} ({facts.family}, {facts.num_hidden_layers} layers, {plan.target.scheme})"),
            ("draft", draft),
            ("device", _device(gpu.row.title, gpu.count)),
            ("back end", plan.backend.name),
            ("acceptance", plan.graph.acceptance),
            ("limits", _limits(plan.limits)),
        ),
        draft_kind=plan.draft.kind,
        gpu=plan.gpu,
        gpus=gpu.count,
        limits=plan.limits,
        memory=plan.memory,
        fit=plan.fit,
        modelled=plan.prediction or Unpredicted("not predicted", "the plan holds no prediction"),
        findings=findings,
        unchecked=unchecked,
        notes=plan.notes,
        refused=None,
        measured=measured,
    )


def _device(title: str, gpus: int) -> str:
    return title if gpus == 1 else f"{gpus} x {title}"


def _limits(limits: LimitsSpec) -> str:
    return f"batch {limits.max_batch}, length {limits.max_length}, gamma at most {limits.max_gamma}"
