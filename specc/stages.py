"""The stages of a build by name, in order; any of them can be the last one."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from specc.errors import SpeccError

Stage: TypeAlias = Literal["plan", "lower", "compile", "publish"]
STAGES: Final[tuple[Stage, ...]] = ("plan", "lower", "compile", "publish")


def stage_from_name(name: str) -> Stage:
    """Return the stage of a name.

    Raises:
        SpeccError: SPC906 there is none of that name.
    """
    for stage in STAGES:
        if stage == name:
            return stage
    raise SpeccError(
        "SPC906", "--stop-after", f"got {name!r}", f"the stages are {', '.join(STAGES)}", "choose one of them"
    )
