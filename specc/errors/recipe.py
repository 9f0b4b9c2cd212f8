"""Codes SPC1nn: the recipe stage."""

from __future__ import annotations

from typing import Final

from specc.errors.tree import CodeRow

RECIPE: Final[dict[str, CodeRow]] = {}
