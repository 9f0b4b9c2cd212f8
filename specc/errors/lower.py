"""Codes SPC4nn: the lower stage."""

from __future__ import annotations

from typing import Final

from specc.errors.tree import CodeRow

LOWER: Final[dict[str, CodeRow]] = {}
