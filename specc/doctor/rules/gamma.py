"""Gamma against the lengths of requests: drafts behind the last token are thrown away."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from specc.doctor.evidence import PairEvidence
from specc.doctor.finding import Edit, Finding, Fix
from specc.doctor.rule import Rule

RARELY_PAYS: Final = 16


def _findings(pair: PairEvidence) -> Iterator[Finding]:
    recipe = pair.recipe
    stated, room = recipe.gamma.max, recipe.limits.max_output - 1
    if stated is None or recipe.draft.kind == "none":
        return
    place = recipe.place("gamma", "max")
    gamma = (f"gamma {stated}", place)
    if stated > room:
        evidence = (gamma, (f"max_output {recipe.limits.max_output}", recipe.place("limits", "max_output")))
        message = f"No request can use more than {room} drafts: one token of each step is the target's own."
        keys = ("max", "default") if (recipe.gamma.default or 0) > room else ("max",)
        edits = tuple(Edit(("gamma", key), str(room), shorthand=("gamma",)) for key in keys)
        fix = Fix(f"gamma: {room}", edits)
        yield Finding("SPC342", "warning", place, evidence, message, fix)
    elif stated > RARELY_PAYS and recipe.draft.kind in ("model", "self"):
        message = (
            f"Draft number {stated} is used only where all before it were right: at 80 % acceptance in "
            f"{0.8**stated:.1%} of the steps, while each costs a pass of the draft."
        )
        yield Finding("SPC342", "warning", place, (gamma,), message, Fix("gamma: auto, or 3 to 8"))


RULE: Final = Rule("gamma", (), _findings)
