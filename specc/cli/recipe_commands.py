"""Commands about recipes: init, check, plan, schema, list, explain."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from specc.bundle.record import json_from_record
from specc.catalog.tables import TABLES
from specc.cli.options import AsJson, Offline, Overrides, RecipeFile
from specc.cli.show import OUT, bytes_text, show_json, show_pairs, show_table
from specc.errors import CODES, SpeccError
from specc.plan.plan import Plan


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


def check(
    recipe: RecipeFile,
    overrides: Overrides = None,
    as_json: AsJson = False,
    offline: Offline = False,
) -> None:
    """Check a recipe and its checkpoints; nothing is built and no weight is read."""
    from specc.pipeline import plan_from_file  # the compiler's libraries take most of a second to load

    plan = plan_from_file(recipe, tuple(overrides or ()), offline=offline)
    if as_json:
        show_json({"recipe": str(recipe), "name": plan.name, "ok": True, "notes": list(plan.notes)})
        return
    OUT.print(f"{recipe}: ok ({plan.target.facts.family}, {plan.backend.name}, {plan.gpu})", markup=False)
    _show_notes(plan)


def plan(
    recipe: RecipeFile,
    overrides: Overrides = None,
    as_json: AsJson = False,
    offline: Offline = False,
) -> None:
    """Decide everything that a build needs and show it: sizes, limits, gamma, memory."""
    from specc.pipeline import plan_from_file

    decided = plan_from_file(recipe, tuple(overrides or ()), offline=offline)
    if as_json:
        show_json(json_from_record(decided))
        return
    _show_plan(decided)


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
    OUT.print(f"{code.upper()}: {row.title}\n\n{row.explanation}\n\nExit status {row.exit_status}.", markup=False)


def _show_plan(plan: Plan) -> None:
    facts, limits, sampling = plan.target.facts, plan.limits, plan.sampling
    total = sum(item.bytes for item in plan.memory)
    show_pairs(
        [
            ("name", plan.name),
            ("target", f"{plan.target.uri} ({facts.family}, {facts.num_hidden_layers} layers, {plan.target.scheme})"),
            ("back end", f"{plan.backend.name} for {plan.gpu}"),
            ("draft", plan.draft.kind),
            ("gamma", f"{limits.default_gamma} by default, at most {limits.max_gamma}"),
            ("acceptance", plan.graph.acceptance),
            ("limits", (f"batch {limits.max_batch}, input {limits.max_input}, output {limits.max_output}, "
             f"length {limits.max_length}, prefill chunk {limits.prefill_chunk}")),
            ("sampling", (f"temperature {sampling.temperature}, top_k {sampling.top_k}, top_p {sampling.top_p}, "
             f"min_p {sampling.min_p} (from {sampling.source})")),
        ]
    )  # fmt: skip
    OUT.print()
    rows = [[item.name, bytes_text(item.bytes), item.detail] for item in plan.memory]
    show_table(["memory", "size", "detail"], [*rows, ["total", bytes_text(total), ""]], right=frozenset({1}))
    _show_notes(plan)


def _show_notes(plan: Plan) -> None:
    for note in plan.notes:
        OUT.print(f"note: {note}", markup=False)
