"""Kinds of text that drafters differ on: which published acceptance a prediction takes."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

Workload: TypeAlias = Literal["chat", "code", "math", "summarisation", "json"]
WORKLOADS: Final[tuple[Workload, ...]] = ("chat", "code", "math", "summarisation", "json")
