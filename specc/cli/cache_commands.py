"""Commands about the store of built objects."""

from __future__ import annotations

import datetime as dt
from typing import Annotated

import typer

from specc.bundle.record import json_from_record
from specc.bundle.store import Store
from specc.cli.options import AsJson
from specc.cli.show import OUT, show_json, show_table
from specc.report.numbers import bytes_text

app = typer.Typer(
    help="The store of built objects: list it, free space.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


@app.command("ls")
def list_objects(as_json: AsJson = False) -> None:
    """List the objects of the store, the least recently used first."""
    with Store() as store:
        entries = store.entries()
        if as_json:
            show_json([json_from_record(entry) for entry in entries])
            return
        rows = [
            [entry.key[:12], bytes_text(entry.size), _day(entry.last_used), entry.describe or "(damaged)"]
            for entry in entries
        ]
        show_table(["key", "size", "last used", "what"], rows, right=frozenset({1}))
        OUT.print(f"{len(entries)} objects, {bytes_text(sum(entry.size for entry in entries))}", markup=False)


def _day(seconds: float) -> str:
    return dt.datetime.fromtimestamp(seconds, dt.UTC).isoformat(sep=" ", timespec="minutes")[:16]


@app.command("gc")
def collect_objects(
    keep_days: Annotated[
        float | None, typer.Option("--keep-days", min=0, help="Keep what was used since.", show_default=False)
    ] = None,
    max_gib: Annotated[
        float | None,
        typer.Option("--max-gib", min=0, max=1e9, help="Free the oldest until so much is left.", show_default=False),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Remove objects that no build is using; without a limit, all of them."""
    with Store() as store:
        everything = keep_days is None and max_gib is None
        freed = store.collect(keep_days, 0 if everything else None if max_gib is None else int(max_gib * 2**30))
    if as_json:
        show_json({"freed_bytes": freed})
        return
    OUT.print(f"freed {bytes_text(freed)}", markup=False)
