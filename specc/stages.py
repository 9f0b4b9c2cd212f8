"""The stages of a build by name, in order; any can be the last one. `layout` is of checkpoints; engines have none."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from specc.errors import SpeccError

Stage: TypeAlias = Literal["plan", "layout", "lower", "compile", "publish"]
STAGES: Final[tuple[Stage, ...]] = ("plan", "layout", "lower", "compile", "publish")


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
