"""Write the fixes that need no decision into a recipe's text."""

from __future__ import annotations

from dataclasses import dataclass

from specc.doctor.finding import Edit, Finding
from specc.recipe.edit import text_with_value


@dataclass(frozen=True)
class Applied:
    """What became of the fixes.

    Attributes:
        text: of the recipe.
        done: edits that are in it, with their findings' codes.
        left: edits that could not be made in one place, likewise.
    """

    text: str
    done: tuple[tuple[str, Edit], ...]
    left: tuple[tuple[str, Edit], ...]


def fixed_text(text: str, findings: tuple[Finding, ...]) -> Applied:
    """Apply every edit of the findings, each on the text that the ones before it left."""
    done: list[tuple[str, Edit]] = []
    left: list[tuple[str, Edit]] = []
    for finding in findings:
        for edit in () if finding.fix is None else finding.fix.edits:
            edited = text_with_value(text, edit.path, edit.value)
            if edited is None and edit.shorthand:
                edited = text_with_value(text, edit.shorthand, edit.value)
            if edited is None:
                left.append((finding.code, edit))
            elif edited != text:
                done.append((finding.code, edit))
                text = edited
    return Applied(text, tuple(done), tuple(left))
