"""The command that plans: memory, speed-up with its interval, and variants side by side."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Annotated, Final

import typer

from specc.bundle.record import json_from_record
from specc.catalog.gpus import gigabytes_text
from specc.cli.options import AsJson, Offline, Overrides, RecipeFile
from specc.cli.show import OUT, show_json, show_pairs, show_table
from specc.cli.write import write_text
from specc.errors import SpeccError
from specc.plan.compare import COLUMNS, comparison_row, interval_text
from specc.plan.outlook import Given
from specc.plan.plan import Fit, MemoryItem, Plan
from specc.plan.prediction import Prediction, Unpredicted
from specc.plan.preview import Preview
from specc.plan.remedies import overrides_text
from specc.plan.request import (
    PlanRequest,
    check_request_gates,
    compared_from_request,
    planned_from_request,
    preview_from_request,
)
from specc.probe.result import remembered_machine
from specc.report.numbers import bytes_text

ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", help="The target's config.json, where its weights are not here.", show_default=False),
]
DraftConfigFile = Annotated[
    Path | None, typer.Option("--draft-config", help="The draft model's config.json, likewise.", show_default=False)
]
AcceptanceFile = Annotated[
    Path | None,
    typer.Option("--acceptance", help="acceptance.json of `specc bench`: in place of priors.", show_default=False),
]
WorkloadOption = Annotated[
    str | None,
    typer.Option("--workload", help="chat, code, math, summarisation or json; as --set workload.", show_default=False),
]
CompareOption = Annotated[
    str | None,
    typer.Option(
        "--compare", metavar="AXIS=VALUES", help="gpus=a,b, schemes=a,b, gamma=1..12 or drafts=a,b.", show_default=False
    ),
]

ReportFile = Annotated[
    Path | None,
    typer.Option("--report", metavar="FILE", help="Write the plan as one HTML page.", show_default=False),
]

DOES_NOT_FIT: Final = "SPC305"
"""The one refusal that is shown with its table of memory: what it does not fit by."""
WIDTH: Final = 66
"""Columns of a long value beside its name, on a terminal of 80."""
GAMMA_COLUMNS: Final = ["gamma", "tokens a round", "speed-up, batch 1"]
BATCH_COLUMNS: Final = ["batch", "gamma", "speed-up", "AR tok/s", "user tok/s", "GPU tok/s"]


def plan(
    *,
    recipe: RecipeFile,
    overrides: Overrides = None,
    workload: WorkloadOption = None,
    acceptance: AcceptanceFile = None,
    config: ConfigFile = None,
    draft_config: DraftConfigFile = None,
    compare: CompareOption = None,
    as_json: AsJson = False,
    offline: Offline = False,
    report: ReportFile = None,
) -> None:
    """Decide everything that a build needs and show it: sizes, limits, memory, and the speed-up to expect."""
    stated = (*(overrides or ()), *(() if workload is None else (f"workload={workload}",)))
    request = PlanRequest(recipe, stated, config, draft_config, acceptance, offline)
    if compare is not None:
        if report is not None:
            raise SpeccError(
                "SPC906", "--report", "given with --compare", "a report is about one plan", "give one of the two"
            )
        _compare(request, compare, as_json=as_json)
        return
    try:
        planned = planned_from_request(request, _given())
    except SpeccError as error:
        if error.code == DOES_NOT_FIT:
            _show_unfit(request, report, as_json=as_json)
        raise
    if report is not None:
        _write_report(request, planned, report)
    if as_json:
        check_request_gates(request, planned)
        show_json(json_from_record(planned))
        return
    if isinstance(planned, Plan):
        _show_plan(planned)
    else:
        _show_preview(planned)
    check_request_gates(request, planned)


def _show_unfit(request: PlanRequest, report: Path | None, *, as_json: bool) -> None:
    preview = preview_from_request(request, _given())
    if report is not None:
        _write_report(request, preview, report)
    if not as_json:
        _show_preview(preview)


def _write_report(request: PlanRequest, planned: Plan | Preview, file: Path) -> None:
    from specc.report.plan_report import html_from_request  # its libraries are needed for nothing else

    write_text(file, html_from_request(request, planned))


def _given() -> Given:
    """Return what was measured of this machine."""
    return Given(machine=remembered_machine())


def _compare(request: PlanRequest, axis: str, *, as_json: bool) -> None:
    compared = compared_from_request(request, _given(), axis)
    if as_json:
        show_json([{"variant": variant.label, **_json_fields(preview)} for variant, preview in compared])
        return
    name = axis.partition("=")[0]
    show_table([name, *COLUMNS], [comparison_row(variant, preview) for variant, preview in compared])
    OUT.print("\nGB of one device; AR/s: tokens per second of one request without drafts;", markup=False)
    OUT.print("speed-ups over AR with the best gamma of each batch; ends: the batch from which", markup=False)
    OUT.print("AR is faster; builds: yes, or the code that a build ends with.", markup=False)


def _json_fields(preview: Preview) -> dict[str, object]:
    fields = json_from_record(preview)
    assert isinstance(fields, dict)
    return dict(fields)


def _show_plan(plan: Plan) -> None:
    facts, limits, sampling = plan.target.facts, plan.limits, plan.sampling
    show_pairs(
        [
            ("name", plan.name),
            ("target", f"{plan.target.uri} ({facts.family}, {facts.num_hidden_layers} layers, {plan.target.scheme})"),
            ("back end", f"{plan.backend.name} for {plan.gpu}"),
            ("draft", plan.draft.kind),
            ("gamma", f"{limits.default_gamma} by default, at most {limits.max_gamma}"),
            ("acceptance", plan.graph.acceptance),
            ("limits", (f"batch {limits.max_batch}, input {limits.max_input}, output {limits.max_output}, "
             f"length {limits.max_length}, prefill chunk {limits.prefill_chunk}")),
            ("sampling", (f"temperature {sampling.temperature}, top_k {sampling.top_k}, top_p {sampling.top_p}, "
             f"min_p {sampling.min_p} (from {sampling.source})")),
        ]
    )  # fmt: skip
    _show_memory(plan.memory, plan.fit)
    if plan.prediction is not None:
        _show_prediction(plan.prediction)
    _show_notes(plan.notes)


def _show_preview(preview: Preview) -> None:
    limits = preview.limits
    drafted = ", ".join(part for part in (preview.draft, preview.draft_scheme) if part is not None)
    show_pairs(
        [
            ("name", preview.name),
            ("target", f"{preview.target} ({preview.scheme})"),
            ("draft", f"{preview.draft_kind} ({drafted})" if drafted else preview.draft_kind),
            ("device", preview.gpu if preview.gpus == 1 else f"{preview.gpus} x {preview.gpu}"),
            ("limits", f"batch {limits.max_batch}, length {limits.max_length}, gamma at most {limits.max_gamma}"),
        ]
    )
    _show_memory(preview.memory, preview.fit)
    _show_prediction(preview.prediction)
    if preview.refused is not None:
        OUT.print()
        for line in textwrap.wrap(f"it is not built: {preview.refused}", 80):
            OUT.print(line, markup=False)
    _show_notes(preview.notes)


def _show_memory(memory: tuple[MemoryItem, ...], fit: Fit | None) -> None:
    OUT.print()
    total = sum(item.bytes for item in memory)
    rows = [[item.name, bytes_text(item.bytes), f"{item.bytes / total:.0%}", item.detail] for item in memory]
    rows.append(["total", bytes_text(total), "", ""])
    show_table(["memory" if fit is None else "memory of one GPU", "size", "", "what"], rows, right=frozenset({1, 2}))
    if fit is None:
        return
    size = (
        f"{abs(fit.headroom_bytes) / 1e9:.1f} of {gigabytes_text(fit.available_bytes)} ({abs(fit.headroom_share):.0%})"
    )
    most = f"batch {fit.largest_batch} at this length, or length {fit.largest_length} at this batch"
    OUT.print()
    show_pairs(
        [
            ("fits", f"yes, {size} are left") if fit.headroom_bytes >= 0 else ("fits", f"no, {size} too much"),
            ("at most", most if fit.largest_batch or fit.largest_length else "not even one row"),
        ]
    )
    for remedy in fit.remedies:
        OUT.print(f"fits with {overrides_text(remedy)}", markup=False)
        freed = f"frees {remedy.freed_bytes / 1e9:.1f} GB, " if remedy.freed_bytes else ""
        OUT.print(f"          {freed}leaves {remedy.headroom_bytes / 1e9:.1f} GB; {remedy.cost}", markup=False)


def _show_prediction(outlook: Prediction | Unpredicted) -> None:
    OUT.print()
    if not isinstance(outlook, Prediction):
        OUT.print(textwrap.fill(f"speed-up: not predicted: {outlook.reason}", 80), markup=False)
        return
    middle, low, high = outlook.acceptance.mid, outlook.acceptance.low, outlook.acceptance.high
    shown = ", ".join(f"{m:.2f} ({a:.2f}-{b:.2f})" for a, m, b in zip(low, middle, high, strict=True))
    best = "0 at batch 1: AR decoding is the fastest"
    if outlook.best_gamma:
        best = f"{outlook.best_gamma} at batch 1"
    if outlook.break_even is not None:
        best += f"; with an acceptance of {outlook.break_even:.2f} it would gain nothing"
    source = textwrap.wrap(outlook.acceptance.source, WIDTH)
    read = f"an AR step reads {outlook.ar_experts:g} of {outlook.experts} a layer, verifying {outlook.verify_experts:g}"
    experts = [("experts", read)] if outlook.experts else []
    show_pairs(
        [
            ("prediction", f"for {outlook.workload}, {outlook.context} cached tokens a request"),
            ("accepted", shown),
            *(("from" if line is source[0] else "", line) for line in source),
            ("best gamma", best),
            ("AR is faster", outlook.slower_batches if outlook.gammas else "nothing is drafted"),
            ("one step", (f"AR {outlook.ar_step_ms:g} ms, verifying {outlook.verify_step_ms:g} ms, "
             f"drafting and rest {outlook.drafting_ms:g} ms")),
            *experts,
            ("first token", f"AR {outlook.ar_ttft_ms:g} ms, with the draft {outlook.ttft_ms:g} ms"),
        ]
    )  # fmt: skip
    if outlook.gammas:
        OUT.print()
        rows = [[str(g.gamma), interval_text(g.tokens), interval_text(g.speedup)] for g in outlook.gammas]
        show_table(GAMMA_COLUMNS, rows)
    OUT.print()
    lines = [
        [str(b.batch), str(b.gamma), interval_text(b.speedup), f"{b.ar_user_tokens:.1f}",
         f"{b.user_tokens.mid:.1f}", f"{b.gpu_tokens.mid:.0f}"]
        for b in outlook.batches
    ]  # fmt: skip
    show_table(BATCH_COLUMNS, lines)
    OUT.print(f"Intervals: that of the acceptance, and {outlook.model_spread:.0%} for the model.", markup=False)


def _show_notes(notes: tuple[str, ...]) -> None:
    for note in notes:
        OUT.print(textwrap.fill(f"note: {note}", 80, subsequent_indent="      "), markup=False)
