"""Every error code is explained, raised and tested; every code that is used exists."""

from __future__ import annotations

import re

import pytest

from specc.errors import CODES, ExitStatus
from tests.house.tree import ROOT, named, project_files, python_files

CODE = re.compile(r"\bSPC[1-9][0-9]{2}\b")
STAGES = {
    "recipe": "1", "checkpoint": "2", "plan": "3", "doctor": "3", "lower": "4", "backend": "5",
    "bundle": "6", "runtime": "7", "certify": "8", "command": "9",
}  # fmt: skip


def _codes_in(files) -> dict[str, str]:
    """Return where each code stands first among the files."""
    found: dict[str, str] = {}
    for file in files:
        for number, line in enumerate(file.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            for code in CODE.findall(line):
                found.setdefault(code, named(file, number))
    return found


RAISED = _codes_in(file for file in python_files("specc") if "errors" not in file.relative_to(ROOT / "specc").parts)
TESTED = _codes_in((ROOT / "tests" / "errors").rglob("*.py"))


@pytest.mark.parametrize("stage", STAGES)
def test_codes_stand_in_the_file_of_their_stage(stage: str) -> None:
    stated = _codes_in([ROOT / "specc" / "errors" / f"{stage}.py"])
    assert not [code for code in stated if code[3] != STAGES[stage]]


def test_the_stages_share_no_code() -> None:
    stated = [_codes_in([ROOT / "specc" / "errors" / f"{stage}.py"]) for stage in STAGES]
    assert set(CODES) == {code for codes in stated for code in codes}


def test_every_code_is_raised_somewhere() -> None:
    assert sorted(set(CODES) - set(RAISED)) == []


def test_every_code_is_tested() -> None:
    assert sorted(set(CODES) - set(TESTED)) == []


def test_every_code_that_is_named_exists() -> None:
    pages = [file for file in project_files() if file.suffix in {".py", ".md", ".yaml", ".j2"}]
    used = _codes_in(file for file in pages if not file.is_relative_to(ROOT / "tests"))
    assert {code: place for code, place in used.items() if code not in CODES} == {}


@pytest.mark.parametrize("code", CODES)
def test_rows_are_complete(code: str) -> None:
    row = CODES[code]
    assert row.title
    assert not row.title.endswith(".")
    assert len(row.explanation) > len(row.title)
    assert row.exit_status in {ExitStatus.USER_INPUT, ExitStatus.GATE, ExitStatus.ENVIRONMENT}
