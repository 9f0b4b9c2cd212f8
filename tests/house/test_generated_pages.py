"""Pages that are made from data say what the data says; `pytest --update-golden` writes them anew."""

from __future__ import annotations

import pytest

from specc.errors import CODES, ExitStatus
from tests.house.tree import ROOT

STAGES = {
    "1": "Recipe", "2": "Source checkpoint", "3": "Plan", "4": "Lowering", "5": "Back end",
    "6": "Bundle and store", "7": "Runtime", "8": "Certificate", "9": "Command line",
}  # fmt: skip
STATUSES = {
    ExitStatus.USER_INPUT: "2, the user's input",
    ExitStatus.GATE: "3, a gate was not met",
    ExitStatus.ENVIRONMENT: "4, the environment",
}
HEAD = """\
# Error codes

Made from `specc.errors.CODES`; do not edit. Every error names its code, the place, what was found there, why specc
cannot go on, and the fix. `specc explain CODE` prints one of these entries.
"""


def errors_page() -> str:
    """Return docs/errors.md as the codes state it."""
    parts = [HEAD]
    for digit, stage in STAGES.items():
        rows = [(code, row) for code, row in sorted(CODES.items()) if code[3] == digit]
        if rows:
            parts.append(f"\n## {stage}\n")
        parts += [
            f"\n### {code}\n\n**{row.title}.** {row.explanation}\nExit status {STATUSES[row.exit_status]}.\n"
            for code, row in rows
        ]
    return "".join(parts)


def test_errors_page_is_current(pytestconfig: pytest.Config) -> None:
    page = ROOT / "docs" / "errors.md"
    if pytestconfig.getoption("update_golden"):
        page.write_text(errors_page())
    assert page.read_text() == errors_page(), "stale: run pytest --update-golden and review the diff"
