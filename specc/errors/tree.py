"""The two trees of exceptions: what a user can fix (`SpeccError`) and what only we can (`SpeccBug`).

Exception
├── SpeccError    a coded user-facing error; its row in `CODES` carries the exit status
└── SpeccBug      a broken promise inside specc; exit status 1, shown with a traceback
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class ExitStatus(IntEnum):
    """Exit statuses of the command line."""

    DONE = 0
    BUG = 1
    USER_INPUT = 2
    GATE = 3
    ENVIRONMENT = 4
    INTERRUPTED = 130


@dataclass(frozen=True)
class CodeRow:
    """What a code means, as `specc explain CODE` prints it.

    Attributes:
        title: a short name of the situation, without a full stop.
        explanation: what it is, why specc refuses it and what usually causes it.
        exit_status: how the process ends when the error reaches the command line.
    """

    title: str
    explanation: str
    exit_status: ExitStatus = ExitStatus.USER_INPUT


class SpeccError(Exception):
    """An error the user can act on: code, place, what was got, why it matters, how to fix it.

    Args:
        code: `SPC<stage><nn>`, a key of `specc.errors.CODES`.
        place: where it happened: `file:line field`, a path, a tensor or an option.
        got: what was found there, with the values.
        why: why specc cannot go on with it.
        fix: what to do; pasteable where possible.
    """

    def __init__(self, code: str, place: str, got: str, why: str, fix: str) -> None:
        super().__init__(f"{code} {place}: {got}")
        self.code = code
        self.place = place
        self.got = got
        self.why = why
        self.fix = fix

    def __str__(self) -> str:
        return f"{self.code} {self.place}\n  {self.got}\n  Why: {self.why}\n  Fix: {self.fix}"

    def as_json(self) -> dict[str, str]:
        """Return the five parts by name, as `--json` prints them."""
        return {"code": self.code, "place": self.place, "got": self.got, "why": self.why, "fix": self.fix}


class SpeccBug(Exception):  # noqa: N818 - the name says whose fault it is
    """A promise inside specc was broken: never the user's fault."""
