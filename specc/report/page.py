"""The whole page as data; the template writes it down and decides nothing."""

from __future__ import annotations

from dataclasses import dataclass

from specc.doctor.finding import Finding
from specc.errors import CODES
from specc.plan.calls import PredictedCalls
from specc.plan.prediction import Prediction
from specc.report.answer import Answer, answer_from_subject, memory_text
from specc.report.chart import Chart
from specc.report.memory_chart import memory_chart
from specc.report.numbers import duration_text
from specc.report.roofline_chart import roofline_chart
from specc.report.speedup_charts import batch_chart, gamma_chart
from specc.report.subject import Measured, Subject
from specc.report.tables import (
    Table,
    acceptance_table,
    batch_table,
    calls_table,
    gamma_table,
    measured_table,
    memory_table,
    outlooks_table,
    priors_table,
    remedies_table,
    step_table,
)
from specc.version import __version__


@dataclass(frozen=True)
class Section:
    """A part of the page: sentences, then charts side by side, then tables."""

    key: str
    title: str
    text: tuple[str, ...] = ()
    charts: tuple[Chart, ...] = ()
    tables: tuple[Table, ...] = ()


@dataclass(frozen=True)
class FindingView:
    """A finding with the title of its code."""

    finding: Finding
    title: str


@dataclass(frozen=True)
class Page:
    """Everything on the page, in order.

    Attributes:
        findings: of the doctor; empty with a reason in `findings_text`.
    """

    name: str
    facts: tuple[tuple[str, str], ...]
    answer: Answer
    findings: tuple[FindingView, ...]
    findings_text: str
    sections: tuple[Section, ...]
    notes: tuple[str, ...]
    version: str


def page_from_subject(subject: Subject) -> Page:
    """Return the page of a plan or a bundle."""
    findings = subject.findings or ()
    sections = [_memory(subject)]
    outlook = subject.outlook
    if isinstance(outlook, Prediction):
        if outlook.gammas:
            most = None if subject.fit is None else subject.fit.largest_batch
            sections.append(_speedup(outlook, subject.modelled_beside, most))
        sections.append(_tokens(outlook))
    if isinstance(subject.modelled, Prediction) and subject.modelled.calls is not None:
        sections += _calls(subject.modelled, subject.modelled.calls, on_cpu=subject.gpu == "cpu")
    if isinstance(outlook, Prediction) and outlook.gammas:
        sections.append(_acceptance(subject, outlook))
    if subject.measured is not None:
        sections.append(_measured(subject, subject.measured))
    return Page(
        name=subject.name,
        facts=subject.facts,
        answer=answer_from_subject(subject),
        findings=tuple(FindingView(finding, CODES[finding.code].title) for finding in findings),
        findings_text=subject.unchecked if subject.findings is None else "The doctor found nothing." * (not findings),
        sections=tuple(sections),
        notes=(() if subject.refused is None else (f"This version does not build it: {subject.refused}",))
        + subject.notes,
        version=__version__,
    )


def _memory(subject: Subject) -> Section:
    device = "CPU" if subject.gpu == "cpu" else subject.gpu
    fit = subject.fit
    chart = memory_chart(subject.memory, None if fit is None else fit.available_bytes, device)
    tables = [memory_table(subject.memory)]
    if fit is not None and fit.remedies:
        tables.insert(0, remedies_table(fit.remedies))
    return Section("memory", "Memory", memory_text(subject), (chart,), tuple(tables))


def _speedup(outlook: Prediction, modelled: Prediction | None, most: int | None) -> Section:
    spread = f", and {outlook.model_spread:.0%} for the model" if outlook.model_spread else ""
    text = (
        f"By {outlook.priced_by}, for {outlook.workload}, with {outlook.context} cached tokens a request. Intervals: "
        f"that of the acceptance{spread}."
    )
    charts = (batch_chart(outlook, modelled), gamma_chart(outlook, modelled))
    if most is not None and most < outlook.batches[-1].batch:
        text += f" Batches above {most} do not fit with texts of full length."
    return Section("speedup", "Speed-up", (text,), charts, (gamma_table(outlook),))


def _tokens(outlook: Prediction) -> Section:
    round_text = (
        f" A round of gamma {outlook.best_drafting_gamma}: {duration_text(outlook.verify_step_ms)} to verify, "
        f"{duration_text(outlook.drafting_ms)} for drafting and the rest."
    )
    alone, both = duration_text(outlook.ar_ttft_ms), duration_text(outlook.ttft_ms)
    drafted = f" with AR decoding, {both} with the draft" * (outlook.ttft_ms != outlook.ar_ttft_ms)
    first = f"By {outlook.priced_by}, the first token of a prompt of {outlook.context} tokens takes {alone}{drafted}."
    step = f"An AR step takes {duration_text(outlook.ar_step_ms)} at batch 1.{round_text if outlook.gammas else ''}"
    return Section("tokens", "Tokens per second", (first, step), (), (batch_table(outlook),))


def _calls(outlook: Prediction, calls: PredictedCalls, *, on_cpu: bool) -> list[Section]:
    cached = f"{calls.cached} cached tokens a row"
    steps = [step_table(calls.target, f"Target: T(B,S) of the model, {cached}")]
    if calls.draft:
        steps.append(step_table(calls.draft, f"Draft model: T(B,S) of the model, {cached}"))
    return [
        Section(
            "roofline", "Roofline", (f"Calls with {outlook.context} cached tokens a row, by the cost model.",),
            (roofline_chart(calls, on_cpu=on_cpu),), (calls_table(calls),),
        ),
        Section(
            "steps", "Step costs", ("One call of B rows (requests), each with S new tokens.",), (), tuple(steps),
        ),
    ]  # fmt: skip


def _acceptance(subject: Subject, outlook: Prediction) -> Section:
    if outlook.break_even is None:
        even = "No break-even acceptance: " + (
            "not even certain acceptance would pay." if outlook.gammas else "with no drafts there is none."
        )
    else:
        even = (
            f"Break-even: with an acceptance of {outlook.break_even:.2f} at every position, gamma "
            f"{outlook.best_drafting_gamma} at batch 1 gains nothing; above it, it pays."
        )
    tables = [acceptance_table(outlook)]
    priors = priors_table(subject.draft_kind, outlook.workload)
    if priors is not None:
        tables.append(priors)
    return Section("acceptance", "Acceptance", (even, f"Source: {outlook.acceptance.source}."), (), tuple(tables))


def _measured(subject: Subject, measured: Measured) -> Section:
    modelled = subject.modelled
    calls = modelled.calls if isinstance(modelled, Prediction) else None
    said = f"Measured on {measured.machine} when the bundle was checked. The runtime decides by these step costs"
    said += (
        ", and they stand in the place of the model in the speed-up above."
        if measured.outlook is not None
        else ". Too few calls were measured for a speed-up by them: the machine was too slow or too busy for the rest."
    )
    lacking = ("The plan holds no prediction of the model to compare with.",) if calls is None else ()
    tables = [measured_table(measured.target, () if calls is None else calls.target, "Target: T(B,S)")]
    if measured.draft:
        tables.append(measured_table(measured.draft, () if calls is None else calls.draft, "Draft engine: T(B,S)"))
    if isinstance(measured.outlook, Prediction) and isinstance(modelled, Prediction):
        tables.append(outlooks_table(measured.outlook, modelled))
    return Section("measured", "Measured step costs", (said, *lacking), (), tuple(tables))
