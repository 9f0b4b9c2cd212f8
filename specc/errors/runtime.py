"""Codes SPC7nn: the runtime stage."""

from __future__ import annotations

from typing import Final

from specc.errors.tree import CodeRow

RUNTIME: Final[dict[str, CodeRow]] = {}
