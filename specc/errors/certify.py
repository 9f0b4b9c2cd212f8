"""Codes SPC8nn: the certify stage."""

from __future__ import annotations

from typing import Final

from specc.errors.tree import CodeRow

CERTIFY: Final[dict[str, CodeRow]] = {}
