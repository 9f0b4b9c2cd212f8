"""Runs sections in processes of their own: one that crashes, hangs or spoils the card's context ends alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeAlias

from gpu_checks.outcome import Outcome, outcome_from_file, write_outcome
from gpu_checks.sections import Section

# Less time than this is not worth a process.
LEAST_SECONDS: Final = 5.0
_SCRIPTS: Final = Path(__file__).resolve().parent.parent
_SHOWN_LINES: Final = 4
_GRACE_SECONDS: Final = 10.0

Command: TypeAlias = Callable[[Section, Path, float], list[str]]
Clock: TypeAlias = Callable[[], float]


def section_command(section: Section, file: Path, seconds: float) -> list[str]:
    """Return the command that runs a section and writes its outcome into a file."""
    return [sys.executable, "-m", "gpu_checks.one", section.name, str(file), f"{seconds:.1f}"]


def run_sections(
    sections: Sequence[Section],
    out: Path,
    budget_s: float,
    fingerprint: str,
    *,
    again: bool = False,
    told: Callable[[Outcome], None] = lambda _: None,
    command: Command = section_command,
    clock: Clock = time.monotonic,
) -> list[Outcome]:
    """Run sections in order, each within its own time and the rest of the budget, and return their outcomes.

    Args:
        sections: what to run.
        out: folder of one JSON file a section; a result with the same fingerprint that passed there is kept.
        budget_s: seconds for all that run now.
        fingerprint: of what shapes the results.
        again: keep nothing.
        told: of each outcome as it comes.
        command: that runs a section.
        clock: monotonic seconds.
    """
    start = clock()
    outcomes = []
    for section in sections:
        file = out / f"{section.name}.json"
        outcome = None if again else outcome_from_file(file)
        if outcome is None or outcome.status != "passed" or outcome.fingerprint != fingerprint:
            left = budget_s - (clock() - start)
            if left < LEAST_SECONDS:
                outcome = Outcome(section.name, "not run", f"{max(left, 0):.0f} s of the budget were left", 0, "")
            else:
                outcome = _outcome_of_process(section, file, min(left, section.seconds), command)
            outcome = replace(outcome, fingerprint=fingerprint)
            write_outcome(outcome, file)
        told(outcome)
        outcomes.append(outcome)
    return outcomes


def _outcome_of_process(section: Section, file: Path, seconds: float, command: Command) -> Outcome:
    """Return what the section's process wrote, or what became of it."""
    file.unlink(missing_ok=True)
    start = time.monotonic()
    with subprocess.Popen(
        command(section, file, seconds),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(_SCRIPTS), os.environ.get("PYTHONPATH", "")])},
    ) as process:
        try:
            said, _ = process.communicate(timeout=seconds + _GRACE_SECONDS)
            ended = _ending(process.returncode, said)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            ended = f"ended after {seconds + _GRACE_SECONDS:.0f} s"
    found = outcome_from_file(file)
    spent = time.monotonic() - start
    if found is not None and process.returncode == 0:
        return replace(found, seconds=round(spent, 2))
    findings = () if found is None else found.findings
    return Outcome(section.name, "failed", ended, round(spent, 2), "", findings)


def _ending(status: int, said: str) -> str:
    last = " | ".join(line.strip() for line in said.strip().splitlines()[-_SHOWN_LINES:])
    if status < 0:
        return f"the process died of {signal.Signals(-status).name}: {last}"
    return f"the process ended with status {status}: {last}" if last else f"the process ended with status {status}"
