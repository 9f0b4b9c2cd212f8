"""What a section found, as records, JSON and lines of the table."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from specc.bundle.disk import replace_text

Status: TypeAlias = Literal["passed", "failed", "skipped", "not run"]

_WIDTHS: Final = (13, 8, 46, 14)


class LackingError(Exception):
    """What a section needs and this machine does not have."""


@dataclass(frozen=True)
class Finding:
    """One line of a section.

    Attributes:
        what: was looked at.
        value: measured or counted; None where there is nothing to measure.
        unit: of the value.
        met: whether a promise is kept; None where nothing is promised.
        note: what explains the value.
        record: the same for a program; empty where none reads it.
    """

    what: str
    value: float | int | str | None = None
    unit: str = ""
    met: bool | None = None
    note: str = ""
    record: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """A section's result.

    Attributes:
        section: its name.
        status: `failed` where a promise was not kept or the section broke; `skipped` where the machine lacks something;
            `not run` where no time was left.
        reason: of a status other than `passed`.
        seconds: that it took.
        fingerprint: of all that shaped it; a result is kept while this stays.
        findings: in order.
    """

    section: str
    status: Status
    reason: str
    seconds: float
    fingerprint: str
    findings: tuple[Finding, ...] = ()


def text_from_outcome(outcome: Outcome) -> str:
    """Return the outcome as JSON."""
    return json.dumps(asdict(outcome), indent=1) + "\n"


def outcome_from_file(file: Path) -> Outcome | None:
    """Return the outcome that a file holds, None where it holds none."""
    try:
        read: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        findings = tuple(Finding(**finding) for finding in read.pop("findings"))
        return Outcome(**read, findings=findings)
    except (OSError, ValueError, TypeError, KeyError):
        return None


def write_outcome(outcome: Outcome, file: Path) -> None:
    """Write the outcome whole or not at all."""
    replace_text(file, text_from_outcome(outcome))


def table_from_outcomes(outcomes: Iterable[Outcome]) -> str:
    """Return the table: a line a finding, and one for each section without any."""
    lines = [_line(("section", "status", "what", "measured", "note")), "-" * 120]
    for outcome in outcomes:
        head: tuple[str, str] = outcome.section, outcome.status
        for finding in outcome.findings:
            lines.append(_line((*head, finding.what, _value(finding), _note(finding))))
            head = "", ""
        if outcome.reason or not outcome.findings:
            lines.append(_line((*head, outcome.reason or "nothing to report", "", "")))
    return "\n".join(line.rstrip() for line in lines)


def _line(columns: tuple[str, ...]) -> str:
    padded = [f"{text:<{width}}" for text, width in zip(columns, _WIDTHS, strict=False)]
    return " ".join([*padded, *columns[len(_WIDTHS) :]])


def _value(finding: Finding) -> str:
    value = finding.value
    if value is None:
        return ""
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return f"{text} {finding.unit}".rstrip()


def _note(finding: Finding) -> str:
    verdict = {True: "ok", False: "NOT MET", None: ""}[finding.met]
    return " ".join(part for part in (verdict, finding.note) if part)
