"""Errors of specc. Each has a code; the first digit names the stage, and each stage's codes stand in its own file."""

from __future__ import annotations

from typing import Final

from specc.errors.backend import BACKEND
from specc.errors.bundle import BUNDLE
from specc.errors.certify import CERTIFY
from specc.errors.checkpoint import CHECKPOINT
from specc.errors.command import COMMAND
from specc.errors.doctor import DOCTOR
from specc.errors.lower import LOWER
from specc.errors.plan import PLAN
from specc.errors.recipe import RECIPE
from specc.errors.runtime import RUNTIME
from specc.errors.tree import CodeRow, ExitStatus, SpeccBug, SpeccError

__all__ = ["CODES", "CodeRow", "ExitStatus", "SpeccBug", "SpeccError", "exit_status_from_error"]

CODES: Final[dict[str, CodeRow]] = {
    **RECIPE,
    **CHECKPOINT,
    **PLAN,
    **DOCTOR,
    **LOWER,
    **BACKEND,
    **BUNDLE,
    **RUNTIME,
    **CERTIFY,
    **COMMAND,
}


def exit_status_from_error(error: SpeccError) -> ExitStatus:
    """Return the exit status that belongs to the error's code."""
    return CODES[error.code].exit_status
