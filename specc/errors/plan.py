"""Codes SPC3nn: the plan stage."""

from __future__ import annotations

from typing import Final

from specc.errors.tree import CodeRow

PLAN: Final[dict[str, CodeRow]] = {}
