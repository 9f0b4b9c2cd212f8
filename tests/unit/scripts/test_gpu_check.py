"""`scripts/gpu_check.py` itself: sections in processes, resuming, the budget, the table, the JSON, the exit status."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import gpu_check
import pytest

from gpu_checks.machine import machine_here
from gpu_checks.one import outcome_from_check
from gpu_checks.outcome import (
    Finding,
    LackingError,
    Outcome,
    outcome_from_file,
    table_from_outcomes,
    text_from_outcome,
    write_outcome,
)
from gpu_checks.run_sections import _GRACE_SECONDS, run_sections
from gpu_checks.sections import SECTIONS, Section

SCRIPT = Path(__file__).parents[3] / "scripts" / "gpu_check.py"
FIRST = Section("first", "none", 30, "?")
SECOND = Section("second", "none", 30, "?")
PASSED = Outcome("first", "passed", "", 0, "", (Finding("a number", 3.14159, "us", note="measured"),))


def python(*code: str) -> Callable[[Section, Path, float], list[str]]:
    """Return what makes the commands of sections: code that sees the file as FILE and the seconds as SECONDS."""
    queue = list(code)

    def command(section: Section, file: Path, seconds: float) -> list[str]:
        body = queue.pop(0)
        return [sys.executable, "-c", f"FILE, SECONDS = {str(file)!r}, {seconds!r}\n{body}"]

    return command


def writes(outcome: Outcome) -> str:
    return f"open(FILE, 'w').write({text_from_outcome(outcome)!r})"


def test_sections_run_in_order_and_are_kept_while_nothing_changes(tmp_path: Path) -> None:
    second = replace(PASSED, section="second")
    told: list[str] = []
    run = run_sections(
        [FIRST, SECOND], tmp_path, 60, "same",
        told=lambda o: told.append(o.section), command=python(writes(PASSED), writes(second)),
    )  # fmt: skip
    assert told == ["first", "second"]
    assert [outcome.status for outcome in run] == ["passed", "passed"]
    assert outcome_from_file(tmp_path / "second.json") == run[1]
    kept = run_sections([FIRST, SECOND], tmp_path, 60, "same", command=python())
    assert kept == run
    anew = run_sections([FIRST], tmp_path, 60, "other card", command=python(writes(replace(PASSED, reason="new"))))
    assert (anew[0].reason, anew[0].fingerprint) == ("new", "other card")
    again = run_sections([FIRST], tmp_path, 60, "other card", again=True, command=python(writes(PASSED)))
    assert again[0].reason == ""


def test_a_section_that_did_not_pass_runs_again(tmp_path: Path) -> None:
    for status in ("failed", "skipped", "not run"):
        write_outcome(replace(PASSED, status=status, fingerprint="same"), tmp_path / "first.json")  # type: ignore[arg-type]
        (outcome,) = run_sections([FIRST], tmp_path, 60, "same", command=python(writes(PASSED)))
        assert outcome.status == "passed"


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import os; print('last words', flush=True); os.abort()", "the process died of SIGABRT: last words"),
        ("import sys; print('one', flush=True); sys.exit(7)", "the process ended with status 7: one"),
        ("pass", "the process ended with status 0"),
        ("open(FILE, 'w').write('{ not json')", "the process ended with status 0"),
    ],
)
def test_a_section_that_dies_is_a_row_and_the_rest_goes_on(tmp_path: Path, code: str, reason: str) -> None:
    second = writes(replace(PASSED, section="second"))
    run = run_sections([FIRST, SECOND], tmp_path, 60, "", command=python(code, second))
    assert [outcome.status for outcome in run] == ["failed", "passed"]
    assert run[0].reason == reason


def test_what_a_section_found_before_it_died_is_kept(tmp_path: Path) -> None:
    so_far = replace(PASSED, status="failed", reason="the process ended here")
    (outcome,) = run_sections([FIRST], tmp_path, 60, "", command=python(f"import os; {writes(so_far)}; os._exit(9)"))
    assert outcome.findings == PASSED.findings
    assert outcome.reason == "the process ended with status 9"


def test_a_section_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpu_checks.run_sections._GRACE_SECONDS", 0.5)
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(60)'])"
    (outcome,) = run_sections([replace(FIRST, seconds=0.5)], tmp_path, 60, "", command=python(code))
    assert (outcome.status, outcome.reason) == ("failed", "ended after 1 s")
    assert outcome.seconds < 10


def test_the_budget_is_shared_and_what_is_left_out_is_said(tmp_path: Path) -> None:
    times = iter([0.0, 0.0, 52.0, 57.0])
    third = Section("third", "none", 30, "?")
    code = "import json; open(FILE, 'w').write(json.dumps(dict(section='x', status='passed', reason=str(SECONDS), seconds=0, fingerprint='', findings=[])))"  # noqa: E501
    run = run_sections([FIRST, SECOND, third], tmp_path, 60, "", command=python(code, code), clock=lambda: next(times))
    assert [outcome.reason for outcome in run] == ["30", "8.0", "3 s of the budget were left"]
    assert run[2].status == "not run"


def test_a_section_is_what_its_findings_say(tmp_path: Path) -> None:
    machine = machine_here(tmp_path, 10)

    def outcome(*steps: Finding | Exception) -> Outcome:
        def check(_):
            for step in steps:
                if isinstance(step, Exception):
                    raise step
                yield step

        return outcome_from_check("first", check, machine)

    good, bad = Finding("good", 1, met=True), Finding("bad", 2, met=False)
    assert outcome(good).status == "passed"
    assert (outcome(good, bad).status, outcome(good, bad).reason) == ("failed", "not met: bad")
    lacking = LackingError("no torch")
    assert (outcome(good, lacking).status, outcome(lacking).reason) == ("skipped", "no torch")
    assert outcome(bad, lacking).status == "failed"
    broken = outcome(good, ValueError("such"))
    assert (broken.status, broken.reason, broken.findings) == ("failed", "ValueError: such", (good,))


def test_the_table_has_a_line_a_finding() -> None:
    failed = Outcome("second", "failed", "not met: bad", 0, "", (Finding("bad", 2, "of 3", met=False, note="1 near"),))
    lines = table_from_outcomes([PASSED, failed, Outcome("third", "skipped", "no GPU", 0, "")]).splitlines()
    assert [line.split() for line in lines[2:]] == [
        ["first", "passed", "a", "number", "3.142", "us", "measured"],
        ["second", "failed", "bad", "2", "of", "3", "NOT", "MET", "1", "near"],
        ["not", "met:", "bad"],
        ["third", "skipped", "no", "GPU"],
    ]


@pytest.mark.parametrize(
    ("statuses", "status"),
    [
        (["passed", "skipped"], 0),
        (["passed", "failed", "not run"], 3),
        (["skipped", "skipped"], 4),
        (["passed", "not run"], 4),
    ],
)
def test_the_exit_status(statuses: list[str], status: int) -> None:
    outcomes = [replace(PASSED, status=s) for s in statuses]  # type: ignore[arg-type]
    assert gpu_check.status_from_outcomes(outcomes) == status


def test_the_folder_of_kernels_reaches_the_sections(tmp_path: Path) -> None:
    assert machine_here(tmp_path, 10).kernels is None
    (tmp_path / "kernels.txt").write_text("elsewhere")
    assert machine_here(tmp_path, 10).kernels == Path("elsewhere")


@pytest.mark.slow
def test_it_runs_as_a_program_and_says_no_gpu_a_section(tmp_path: Path) -> None:
    """On a machine with a card the same run is the real one."""
    from tests.conftest import _gpu_count

    if _gpu_count():
        pytest.skip("this machine has a GPU: run the program itself")
    command = [sys.executable, str(SCRIPT), "--out", str(tmp_path), "--only", "environment"]
    done = subprocess.run(command, check=False, text=True, capture_output=True, cwd=tmp_path)
    assert done.returncode == 4, done.stderr
    report = json.loads((tmp_path / "gpu_check.json").read_text())
    assert [(s["section"], s["status"]) for s in report["sections"]] == [("environment", "skipped")]
    assert all(section["reason"].startswith("no GPU: ") for section in report["sections"])
    assert done.stdout.count("no GPU: ") == 2


def test_an_unknown_section_is_the_users_mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        gpu_check.main(["--only", "nothing", "--out", str(tmp_path)])
    assert caught.value.code == 2
    assert "environment" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [["--budget-seconds", "nan"], ["--budget-seconds", "-1"], ["--kernels", "nowhere"], ["--out", "/dev/null/x"]],
)
def test_an_option_that_means_nothing_is_the_users_mistake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as caught:
        gpu_check.main(arguments)
    assert caught.value.code == 2
    assert f"error: argument {arguments[0]}" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_run_ends_within_ten_minutes() -> None:
    longest = max(row.seconds for row in SECTIONS.values())
    assert longest < gpu_check.BUDGET_S
    assert gpu_check.BUDGET_S + _GRACE_SECONDS < 600


@pytest.mark.parametrize(("tests", "checks", "status"), [(0, 0, 0), (1, 0, 1), (0, 3, 3), (1, 4, 4)])
def test_the_checks_run_whatever_the_tests_on_a_card_say(tmp_path: Path, tests: int, checks: int, status: int) -> None:
    """On a rented card a test that fails must not cost all that the checks would have told."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\n[ "$1" = -m ] && exit {tests}\nexit {checks}\n')
    python.chmod(0o755)
    script = SCRIPT.parents[1] / "tests" / "gpu" / "run_on_gpu.sh"
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(["sh", str(script), "--again"], check=False, env=os.environ | {"PATH": path})
    assert done.returncode == status
    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls[0].startswith("-m pytest tests/gpu")
    assert calls[1:] == ["scripts/gpu_check.py --budget-seconds 340 --again"]
