"""Commands about recipes and the catalog: init, schema, list, explain."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from specc.catalog.tables import TABLES
from specc.cli.options import AsJson
from specc.cli.show import OUT, show_json, show_table, wrapped
from specc.errors import CODES, SpeccError


def init(
    target: Annotated[str, typer.Option("--target", help="The target model: folder, GGUF file, package:// or hub id.")],
    gpu: Annotated[str, typer.Option("--gpu", help="A row of `specc list gpus`.")] = "cpu",
    output: Annotated[
        Path | None, typer.Option("--output", help="Write here; absent: standard output.", show_default=False)
    ] = None,
) -> None:
    """Write a first recipe for a model and a GPU."""
    from specc.recipe.init import recipe_text_from_target

    text = recipe_text_from_target(target, gpu, Path() if output is None else output.parent)
    if output is None:
        typer.echo(text, nl=False)
        return
    try:
        with output.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise SpeccError(
            "SPC904", str(output), "the file exists", "init writes new recipes only", "choose another --output"
        ) from None
    except OSError as error:
        raise SpeccError(
            "SPC905", str(output), str(error.strerror), "the recipe goes there", "choose a folder that can be written"
        ) from None
    OUT.print(f"wrote {output}", markup=False)


def schema() -> None:
    """Print the JSON schema of recipes, for editors."""
    from specc.recipe.load import json_schema

    typer.echo(json.dumps(json_schema(), indent=2, ensure_ascii=False))


def list_names(
    what: Annotated[str, typer.Argument(help=f"One of {', '.join(TABLES)}.", show_default=False)],
    as_json: AsJson = False,
) -> None:
    """List what specc knows: gpus, schemes, backends, kinds, families."""
    if what not in TABLES:
        raise SpeccError(
            "SPC901", "specc list", f"unknown {what!r}", f"known are {', '.join(TABLES)}", "choose one of them"
        )
    columns, rows = TABLES[what]()
    if as_json:
        show_json([dict(zip(columns, row, strict=True)) for row in rows])
        return
    show_table(columns, rows)


def explain(
    code: Annotated[str, typer.Argument(help="A code that specc printed, as SPC204.", show_default=False)],
    as_json: AsJson = False,
) -> None:
    """Explain an error code."""
    row = CODES.get(code.upper())
    if row is None:
        raise SpeccError(
            "SPC901", "specc explain", f"unknown code {code!r}", f"codes are {min(CODES)} to {max(CODES)}",
            "copy the code from the error message",
        )  # fmt: skip
    if as_json:
        show_json({"code": code.upper(), "title": row.title, "explanation": row.explanation, "exit": row.exit_status})
        return
    parts = (f"{code.upper()}: {row.title}", row.explanation, f"Exit status {row.exit_status}.")
    OUT.print("\n\n".join(map(wrapped, parts)), markup=False)
