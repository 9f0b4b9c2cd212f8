"""Codes SPC5nn: the backend stage."""

from __future__ import annotations

from typing import Final

from specc.errors.tree import CodeRow

BACKEND: Final[dict[str, CodeRow]] = {}
