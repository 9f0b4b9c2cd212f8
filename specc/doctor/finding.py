"""What the doctor finds: a code, how grave it is, the values it rests on with their places, and a fix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from specc.errors import SpeccError

Severity: TypeAlias = Literal["error", "warning", "note"]
Evidence: TypeAlias = tuple[tuple[str, str], ...]

SEVERITIES: Final[tuple[Severity, ...]] = ("error", "warning", "note")


@dataclass(frozen=True)
class Edit:
    """One change of the recipe's text.

    Attributes:
        path: keys from the top, as `("backend", "flow")`.
        value: YAML of the new value, on one line.
        shorthand: the path of a shorthand that may stand for the mapping, as `("gamma",)`; empty: there is none.
    """

    path: tuple[str, ...]
    value: str
    shorthand: tuple[str, ...] = ()


@dataclass(frozen=True)
class Fix:
    """What to do.

    Attributes:
        text: for people, pasteable where possible.
        edits: what `specc check --fix` writes into the recipe; empty where a person has to decide.
    """

    text: str
    edits: tuple[Edit, ...] = ()


@dataclass(frozen=True)
class Finding:
    """One finding.

    Attributes:
        code: key of `specc.errors.CODES`.
        severity: `error`: no bundle can be built so; `warning`: it can, but is likely not what was meant; `note`: worth
            knowing.
        place: of the recipe, `file:line field`, or a path.
        evidence: (value, where it was read), usually two.
        message: what it means.
        fix: None where nothing needs to be done.
    """

    code: str
    severity: Severity
    place: str
    evidence: Evidence
    message: str
    fix: Fix | None = None


def finding_from_error(error: SpeccError) -> Finding:
    """Return what a stage refuses as a finding."""
    return Finding(error.code, "error", error.place, ((error.got, error.place),), error.why, Fix(error.fix))
