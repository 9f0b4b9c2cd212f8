"""The command that writes other servers' configuration for a pair."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from specc.catalog.servers import SERVERS
from specc.cli.options import AsJson, Offline, Overrides
from specc.cli.plan_command import ConfigFile, DraftConfigFile
from specc.cli.show import ERR, show_json
from specc.cli.write import write_text


def export(
    source: Annotated[Path, typer.Argument(metavar="RECIPE|BUNDLE", help="A recipe or a bundle.", show_default=False)],
    to: Annotated[str, typer.Option("--to", help=f"One of {', '.join(SERVERS)}.", show_default=False)],
    *,
    overrides: Overrides = None,
    config: ConfigFile = None,
    draft_config: DraftConfigFile = None,
    output: Annotated[
        Path | None, typer.Option("--output", help="Write here; absent: standard output.", show_default=False)
    ] = None,
    offline: Offline = False,
    as_json: AsJson = False,
) -> None:
    """Write the speculative configuration of another server for the same pair, and say what it loses."""
    from specc.doctor.head_fit import planned_with_head
    from specc.export.exported import exported_from_pair, server_from_name
    from specc.export.pair import pair_from_path
    from specc.plan.plan import Plan
    from specc.plan.preview import Preview
    from specc.plan.request import PlanRequest
    from specc.probe.heads import given_here

    stated = tuple(overrides or ())
    server = server_from_name(to)

    def planned(recipe: Path) -> Plan | Preview:
        request = PlanRequest(recipe, stated, config, draft_config, None, offline)
        return planned_with_head(request, given_here())

    made = exported_from_pair(pair_from_path(source, stated, planned), server)
    if output is not None:
        write_text(output, made.text)
    if as_json:
        show_json({"to": made.to, "form": made.form, "text": made.text, "lost": made.lost, "source": made.source})
        return
    if output is None:
        typer.echo(made.text, nl=False)
    for sentence in made.lost:
        ERR.print(f"lost: {sentence}", markup=False)
