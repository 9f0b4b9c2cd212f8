"""The application, and the one place where errors become messages and exit statuses."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from io import TextIOWrapper
from typing import Annotated

import typer

from specc.cli.commands import CommandsByName
from specc.cli.show import show_error, show_json
from specc.errors import ExitStatus, SpeccError, exit_status_from_error
from specc.version import __version__

app = typer.Typer(
    name="specc",
    cls=CommandsByName,
    help="A compiler for speculative decoding: recipe in, engines that verify drafted tokens out.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _show_version(value: bool) -> None:
    if value:
        typer.echo(f"specc {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    _version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Options of every command stand behind it; this is the root."""


def finished_status(arguments: list[str]) -> int:
    """Run one command line with everything it printed written out, and return the exit status."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a locale that lacks a character is no reason to fail
    status = status_from_arguments(arguments)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python complains when it flushes once more
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _shown(refused_by_system(error), arguments)
    return status


def status_from_arguments(arguments: list[str]) -> int:
    """Run one command line and return its exit status; errors are printed."""
    try:
        app(arguments, prog_name="specc")
    except SystemExit as ended:  # typer ends every command so: 0, 2 for a wrong command line, 130 interrupted
        unheard = isinstance(ended.__context__, BrokenPipeError)  # the reader of our output has seen enough
        return ended.code if isinstance(ended.code, int) and not unheard else ExitStatus.DONE
    except SpeccError as error:
        return _shown(error, arguments)
    except KeyboardInterrupt:
        typer.echo("interrupted", err=True)
        return ExitStatus.INTERRUPTED
    except OSError as error:
        return _shown(refused_by_system(error), arguments)
    except Exception:  # noqa: BLE001 - whatever is left is ours
        traceback.print_exc()
        typer.echo("This is a bug in specc. Please report it with the lines above.", err=True)
        return ExitStatus.BUG
    return ExitStatus.DONE


def refused_by_system(error: OSError) -> SpeccError:
    """Return the coded error of a failure that no part of specc expects: a full standard output, say."""
    return SpeccError(
        "SPC907",
        str(error.filename or "standard output or another file"),
        error.strerror or str(error),
        "the operating system refused it",
        "free space, or correct the permissions",
    )


def _shown(error: SpeccError, arguments: list[str]) -> int:
    show_error(error)
    if "--json" in arguments:
        with contextlib.suppress(OSError):
            show_json({"error": error.as_json()})
    return exit_status_from_error(error)
