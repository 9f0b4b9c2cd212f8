"""One section in this process: `python -m gpu_checks.one NAME FILE SECONDS` writes its outcome into a file."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from gpu_checks.machine import Machine, machine_here
from gpu_checks.outcome import Finding, LackingError, Outcome, write_outcome
from gpu_checks.sections import SECTIONS
from specc.errors import SpeccError


def outcome_from_check(
    name: str,
    check: Callable[[Machine], Iterator[Finding]],
    machine: Machine,
    told: Callable[[Outcome], None] = lambda _: None,
) -> Outcome:
    """Run a section and return its outcome; what it found before it broke is kept.

    Args:
        name: of the section.
        check: yields its findings.
        machine: what it looks at.
        told: the outcome so far, after each finding: what stands if the process dies.
    """
    findings: list[Finding] = []

    def outcome(problem: str = "") -> Outcome:
        unmet = [finding.what for finding in findings if finding.met is False]
        reason = problem or (f"not met: {', '.join(unmet)}" if unmet else "")
        return Outcome(name, "failed" if reason else "passed", reason, 0, "", tuple(findings))

    try:
        for finding in check(machine):
            findings.append(finding)
            told(replace(outcome(), status="failed", reason="the process ended here"))
    except LackingError as lacking:
        done = outcome()
        return replace(done, status="skipped", reason=str(lacking)) if done.status == "passed" else done
    except SpeccError as error:
        return outcome(f"{error.code} {error.place}: {error.got}")
    except Exception as error:  # noqa: BLE001 - a section that breaks is a line of the table
        return outcome(f"{type(error).__name__}: {error}")
    return outcome()


def main(arguments: list[str]) -> None:
    """Run the section that the arguments name."""
    name, file, seconds = arguments[0], Path(arguments[1]), float(arguments[2])
    module = importlib.import_module(f"gpu_checks.checks.{SECTIONS[name].module}")
    machine = machine_here(file.parent, seconds, SECTIONS[name].backend)
    write_outcome(outcome_from_check(name, module.check, machine, lambda so_far: write_outcome(so_far, file)), file)


if __name__ == "__main__":
    main(sys.argv[1:])
