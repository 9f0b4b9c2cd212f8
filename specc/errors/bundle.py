"""Codes SPC6nn: the bundle stage."""

from __future__ import annotations

from typing import Final

from specc.errors.tree import CodeRow

BUNDLE: Final[dict[str, CodeRow]] = {}
