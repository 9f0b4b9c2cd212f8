"""Codes SPC9nn: the command stage."""

from __future__ import annotations

from typing import Final

from specc.errors.tree import CodeRow

COMMAND: Final[dict[str, CodeRow]] = {}
