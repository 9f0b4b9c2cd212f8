"""The command that plans: memory, speed-up with its interval, and variants side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from specc.bundle.record import json_from_record
from specc.cli.options import AsJson, Offline, Overrides
from specc.cli.plan_text import show_plan, show_preview
from specc.cli.show import OUT, show_json, show_table, wrapped
from specc.cli.write import write_text
from specc.doctor.head_fit import planned_with_head
from specc.errors import SpeccError
from specc.plan.compare import COLUMNS, comparison_row
from specc.plan.plan import Plan
from specc.plan.prediction import Unpredicted
from specc.plan.preview import Preview
from specc.plan.request import (
    PlanRequest,
    check_planned,
    compared_from_request,
    preview_from_request,
)
from specc.probe.heads import given_here

RecipeOrBundle = Annotated[
    Path, typer.Argument(metavar="RECIPE", help="The recipe, a YAML file; or a bundle's folder.", show_default=False)
]
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


def plan(
    *,
    recipe: RecipeOrBundle,
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
    if recipe.is_dir():
        from specc.cli.bundle_plan import plan_bundle, refuse_options  # what runs a bundle is needed for nothing else

        changing = {"--config": config, "--draft-config": draft_config, "--compare": compare, "--workload": workload}
        refuse_options(recipe, {"--set": overrides, **changing})
        plan_bundle(recipe, acceptance, report, as_json=as_json)
        return
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
        planned = planned_with_head(request, given_here())
    except SpeccError as error:
        if error.code == DOES_NOT_FIT:
            _show_unfit(request, report, as_json=as_json)
        raise
    if report is not None:
        _write_report(request, planned, report)
    if as_json:
        check_planned(request, planned)
        show_json(json_from_record(planned))
        return
    if isinstance(planned, Plan):
        show_plan(planned)
    else:
        show_preview(planned)
    check_planned(request, planned)


def _show_unfit(request: PlanRequest, report: Path | None, *, as_json: bool) -> None:
    preview = preview_from_request(request, given_here())
    if report is not None:
        _write_report(request, preview, report)
    if not as_json:
        show_preview(preview)


def _write_report(request: PlanRequest, planned: Plan | Preview, file: Path) -> None:
    from specc.report.plan_report import html_from_request  # its libraries are needed for nothing else

    write_text(file, html_from_request(request, planned))


def _compare(request: PlanRequest, axis: str, *, as_json: bool) -> None:
    compared = compared_from_request(request, given_here(), axis)
    if as_json:
        show_json([{"variant": variant.label, **_json_fields(preview)} for variant, preview in compared])
        return
    name = axis.partition("=")[0]
    show_table([name, *COLUMNS], [comparison_row(variant, preview) for variant, preview in compared])
    OUT.print("\nGB of one device; AR/s: tokens per second of one request without drafts;", markup=False)
    OUT.print("speed-ups over AR with the best gamma of each batch; pays: the batches at which", markup=False)
    OUT.print("drafts gain; builds: yes, or the code that a build ends with.", markup=False)
    outlooks = [preview.prediction for _, preview in compared]
    for reason in dict.fromkeys(outlook.reason for outlook in outlooks if isinstance(outlook, Unpredicted)):
        OUT.print(wrapped(f"Not predicted: {reason}."), markup=False)


def _json_fields(preview: Preview) -> dict[str, object]:
    fields = json_from_record(preview)
    assert isinstance(fields, dict)
    return dict(fields)
