"""The commands by name, each imported when it is asked for: `specc check` does not wait for what only `run` needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from importlib import import_module
from typing import Any, Final, cast

import typer
from typer.core import TyperGroup

COMMANDS: Final[dict[str, tuple[str, str]]] = {
    "init": ("recipe_commands", "init"),
    "check": ("check_command", "check"),
    "plan": ("plan_command", "plan"),
    "build": ("build_commands", "build_bundle"),
    "inspect": ("bundle_commands", "inspect"),
    "run": ("bundle_commands", "run"),
    "bench": ("bundle_commands", "bench"),
    "verify": ("bundle_commands", "verify"),
    "export": ("export_command", "export"),
    "diff": ("diff_command", "diff"),
    "probe": ("probe_command", "probe"),
    "schema": ("recipe_commands", "schema"),
    "list": ("recipe_commands", "list_names"),
    "explain": ("recipe_commands", "explain"),
    "kernels": ("kernels_commands", "app"),
    "cache": ("cache_commands", "app"),
}
"""By name: the module of `specc.cli` and what of it is the command, a function or an application of several."""


class _Imported(Mapping[str, Any]):
    """The commands of `COMMANDS` as the library wants them."""

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 - a command of the library's kind
        module, attribute = COMMANDS[name]
        found = getattr(import_module(f"specc.cli.{module}"), attribute)
        if not isinstance(found, typer.Typer):
            single = typer.Typer(add_completion=False, rich_markup_mode=None)
            single.command(name)(found)
            found = single
        command = typer.main.get_command(found)
        command.name = name
        return command

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class CommandsByName(TyperGroup):
    """The commands of `COMMANDS`, in that order."""

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401 - the form of the library
        super().__init__(**settings)
        self.commands = cast("MutableMapping[str, Any]", _Imported())  # it is only read
