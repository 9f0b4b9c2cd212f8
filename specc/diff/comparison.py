"""The result of a comparison: what `specc diff --json` prints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

SideKind: TypeAlias = Literal["recipe", "plan", "lock", "bundle"]
Unit: TypeAlias = Literal["bytes", "seconds", "ratio"]


@dataclass(frozen=True)
class SideName:
    """One of the two things: where it is, and what it is."""

    path: str
    kind: SideKind


@dataclass(frozen=True)
class Change:
    """One value that differs, as JSON text; None where a side does not have the key."""

    key: str
    a: str | None
    b: str | None


@dataclass(frozen=True)
class Quantity:
    """One number of both sides; None where a side does not have it.

    Attributes:
        name: of what.
        unit: `ratio` is a number without unit.
        a, b: the numbers.
    """

    name: str
    unit: Unit
    a: float | None
    b: float | None


@dataclass(frozen=True)
class Changes:
    """What changed in one part: `recipe`, `plan`, `sources`, `toolchain`, `engines`."""

    part: str
    changes: tuple[Change, ...]


@dataclass(frozen=True)
class Effects:
    """Numbers of one part.

    Parts are `size`, `memory`, then `predicted times, batch 1` and `predicted speed-up` of two plans, or where both
    sides were measured `step costs`, `acceptance (MAL)` and the `predicted speed-up` by these.

    Attributes:
        part: of what.
        measured: they come from a run, so that two runs of the same thing differ as well.
        quantities: of both sides.
    """

    part: str
    measured: bool
    quantities: tuple[Quantity, ...]


@dataclass(frozen=True)
class Comparison:
    """Everything that both sides have, compared; `notes` say what could not be, and why."""

    a: SideName
    b: SideName
    changes: tuple[Changes, ...]
    effects: tuple[Effects, ...]
    notes: tuple[str, ...]

    @property
    def same(self) -> bool:
        """Whether nothing differs but what was measured."""
        stated = [quantity for part in self.effects if not part.measured for quantity in part.quantities]
        return not any(part.changes for part in self.changes) and all(quantity.a == quantity.b for quantity in stated)
