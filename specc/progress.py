"""How long stages report their progress, without knowing who shows it."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Receives (what, done, total) from a stage; the unit of done and total is the stage's own, bytes or tensors."""

    def __call__(self, what: str, done: int, total: int) -> None:
        """Take note."""


def silent(what: str, done: int, total: int) -> None:
    """Show nothing."""
