"""The command that compares recipes, plans, locks and bundles."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from specc.bundle.record import json_from_record
from specc.cli.options import AsJson, Offline
from specc.cli.show import OUT, show_json
from specc.diff.compare import comparison_from_sides
from specc.diff.side import side_from_path
from specc.diff.text import lines_from_comparison
from specc.errors import ExitStatus

Compared = Annotated[Path, typer.Argument(help="A recipe, a bundle, a lock or a plan.json.", show_default=False)]


def diff(
    a: Compared,
    b: Compared,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="End with status 3 where they differ in more than measurements.")
    ] = False,
    offline: Offline = False,
    as_json: AsJson = False,
) -> None:
    """Show what two recipes, plans, locks or bundles differ in, and the effect on size, memory, speed, acceptance."""
    from specc.pipeline import plan_from_file  # the compiler's libraries take most of a second to load

    plan_of_recipe = partial(plan_from_file, overrides=(), offline=offline)
    comparison = comparison_from_sides(side_from_path(a, plan_of_recipe), side_from_path(b, plan_of_recipe))
    if as_json:
        value = json_from_record(comparison)
        assert isinstance(value, dict)
        show_json({**value, "same": comparison.same})
    else:
        for line in lines_from_comparison(comparison):
            OUT.print(line, markup=False)
    if exit_code and not comparison.same:
        raise typer.Exit(ExitStatus.GATE)
