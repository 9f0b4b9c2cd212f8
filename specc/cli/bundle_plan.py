"""`specc plan BUNDLE`: the plan that a bundle was built by, with its measured calls in the place of the cost model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from specc.bundle.record import json_from_record
from specc.certify.outlook import BundleOutlook, open_outlook
from specc.cli.plan_text import show_plan
from specc.cli.reports import speedup_pairs
from specc.cli.show import OUT, show_json, show_notes, show_pairs
from specc.cli.write import write_text
from specc.errors import SpeccError
from specc.plan.measured import acceptance_from_file


def plan_bundle(bundle: Path, acceptance: Path | None, report: Path | None, *, as_json: bool) -> None:
    """Show the plan of a bundle.

    Args:
        bundle: its folder.
        acceptance: acceptance.json in the place of the plan's acceptance; None: the plan's.
        report: where the bundle's report goes as well; None: nowhere.
        as_json: print plan.json, with what was measured in its prediction.

    Raises:
        SpeccError: SPC6nn the bundle is not whole, SPC306 no measured acceptance, SPC718 a damaged certificate.
    """
    measured = None if acceptance is None else acceptance_from_file(acceptance)
    opened = open_outlook(bundle, "sizes", measured)
    if report is not None:
        from specc.report.bundle_report import html_from_bundle  # its libraries are needed for nothing else

        write_text(report, html_from_bundle(bundle))
    plan = opened.plan if opened.measured is None else replace(opened.plan, prediction=opened.measured)
    if as_json:
        show_json(_as_json(opened))
        return
    show_plan(plan)
    OUT.print()
    show_pairs(speedup_pairs(opened))
    show_notes(note for note in (opened.ignored, opened.elsewhere) if note is not None)


def refuse_options(bundle: Path, options: dict[str, object]) -> None:
    """Refuse options that would change a bundle's plan: it was built.

    Raises:
        SpeccError: SPC906.
    """
    for name, value in options.items():
        if value not in (None, [], False):
            raise SpeccError(
                "SPC906",
                name,
                f"given with {bundle}, a bundle",
                "a bundle was built by its plan, and only a recipe can be planned anew",
                "give the recipe's file, or leave the option out",
            )


def _as_json(opened: BundleOutlook) -> dict[str, object]:
    fields = json_from_record(opened.plan)
    assert isinstance(fields, dict)
    modelled = fields["prediction"]
    prediction = modelled if opened.measured is None else json_from_record(opened.measured)
    return {**fields, "prediction": prediction, "modelled_prediction": modelled, "measured_on": opened.machine}
