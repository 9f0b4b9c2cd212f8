"""The command that checks a recipe and its models: every finding at once, for people and for CI."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from specc.bundle.disk import replace_text
from specc.bundle.record import json_from_record
from specc.cli.options import AsJson, Offline, OutFolder, Overrides, RecipeFile
from specc.cli.show import OUT, show_json, wrapped
from specc.doctor.check import Report, report_from_file
from specc.doctor.finding import SEVERITIES, Finding
from specc.doctor.fixes import Applied, fixed_text
from specc.errors import CODES, ExitStatus
from specc.recipe.tree import OVERRIDE


def check(
    recipe: RecipeFile,
    *,
    overrides: Overrides = None,
    as_json: AsJson = False,
    offline: Offline = False,
    out: OutFolder = Path("build"),
    strict: Annotated[bool, typer.Option("--strict", help="End with status 3 where there are warnings.")] = False,
    fix: Annotated[
        bool, typer.Option("--fix", help="Write the fixes that need no decision into the recipe, and check it again.")
    ] = False,
) -> None:
    """Check a recipe and the pair of its models; nothing is built and no weight is read."""
    stated = tuple(overrides or ())
    report = report_from_file(recipe, stated, offline=offline, bundles=out)
    applied = _fixed(recipe, report) if fix else None
    if applied is not None and applied.done:
        report = report_from_file(recipe, stated, offline=offline, bundles=out)
    if as_json:
        show_json(_as_json(recipe, report, applied))
    else:
        _show(recipe, report, applied)
    status = _status(report, strict=strict)
    if status is not ExitStatus.DONE:
        raise typer.Exit(status)


def _fixed(recipe: Path, report: Report) -> Applied:
    """Apply what can be applied; the file changes only where something does, whole or not at all.

    A value that `--set` states is not the file's, and no edit of the file would change it.
    """
    findings = tuple(f for f in report.findings if not f.place.startswith(OVERRIDE))
    if not any(finding.fix is not None and finding.fix.edits for finding in findings):
        return Applied("", (), ())
    file = recipe.resolve()  # a link stays a link
    text = file.read_bytes().decode()
    applied = fixed_text(text, findings)
    if applied.text != text:
        mode = file.stat().st_mode
        replace_text(file, applied.text)
        file.chmod(mode)
    return applied


def _status(report: Report, *, strict: bool) -> ExitStatus:
    """Return 2 for errors (4 where the environment alone is at fault), 3 for warnings under --strict."""
    statuses = {CODES[finding.code].exit_status for finding in report.of("error")}
    if statuses:
        return ExitStatus.ENVIRONMENT if statuses == {ExitStatus.ENVIRONMENT} else ExitStatus.USER_INPUT
    return ExitStatus.GATE if strict and report.of("warning") else ExitStatus.DONE


def _as_json(recipe: Path, report: Report, applied: Applied | None) -> dict[str, object]:
    plan = report.plan
    return {
        "recipe": str(recipe),
        "name": None if plan is None else plan.name,
        "ok": not report.of("error"),
        "findings": [json_from_record(finding) for finding in report.findings],
        "skipped": [{"rule": rule, "needs": list(needs)} for rule, needs in report.skipped],
        "notes": [] if plan is None else list(plan.notes),
        "fixed": [] if applied is None else [json_from_record(edit) for _, edit in applied.done],
    }


def _show(recipe: Path, report: Report, applied: Applied | None) -> None:
    for code, edit in () if applied is None else applied.done:
        OUT.print(f"fixed {code}: {'.'.join(edit.path)}: {edit.value}", markup=False)
    for code, edit in () if applied is None else applied.left:
        OUT.print(f"by hand, {code}: {'.'.join(edit.path)}: {edit.value}", markup=False)
    for severity in SEVERITIES:
        for finding in report.of(severity):
            for line in lines_from_finding(finding):
                OUT.print(line, markup=False)
    for note in () if report.plan is None else report.plan.notes:
        OUT.print(_wrapped("note     ", note, " " * 9), markup=False)
    if report.skipped:
        OUT.print(_wrapped("not run  ", _skipped(report), " " * 9), markup=False)
    OUT.print(f"{recipe}: {_verdict(report)}", markup=False)


def lines_from_finding(finding: Finding) -> list[str]:
    """Return a finding as lines of at most 80 columns, words longer than that excepted."""
    lines = [
        _wrapped(f"{finding.severity:<8} ", f"{finding.code} {CODES[finding.code].title}", " " * 9),
        _wrapped("  ", finding.place, "    "),
        *(
            _wrapped("  - ", value if where == finding.place else f"{value}  ({where})", "    ")
            for value, where in finding.evidence
        ),
        _wrapped("  ", finding.message, "  "),
    ]
    if finding.fix is not None:
        lines.append(_wrapped("  Fix: ", finding.fix.text, " " * 7))
    return [*lines, ""]


def _wrapped(first: str, text: str, following: str) -> str:
    return wrapped(text.replace(f"{Path.cwd()}{os.sep}", ""), first, following)


def _skipped(report: Report) -> str:
    rules = ", ".join(rule for rule, _ in report.skipped)
    needs = dict.fromkeys(need for _, needs in report.skipped for need in needs)
    return f"{rules}: could not be read: {', '.join(needs)}"


def _verdict(report: Report) -> str:
    counts = [(len(report.of(severity)), severity) for severity in SEVERITIES]
    named = ", ".join(f"{count} {name}{'' if count == 1 else 's'}" for count, name in counts if count)
    if report.plan is not None and not report.of("error"):
        plan = report.plan
        what = f"ok ({plan.target.facts.family}, {plan.backend.name}, {plan.gpu})"
        return f"{what}; {named}" if named else what
    return named or "ok"
