"""Codes SPC2nn: the checkpoint stage."""

from __future__ import annotations

from typing import Final

from specc.errors.tree import CodeRow

CHECKPOINT: Final[dict[str, CodeRow]] = {}
