"""The commands that the pages show are commands that exist: each is parsed as the shell and the program would."""

from __future__ import annotations

import re
import shlex
from typing import Any

import pytest
import typer

from specc.cli.main import app
from tests.house.tree import ROOT, named, project_files

PAGES = [file for file in project_files() if file.suffix == ".md" and named(file) != "CHANGELOG.md"]
FENCE = re.compile(r"^```(?:console|shell|bash|sh)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def _shown_commands() -> list[tuple[str, list[str]]]:
    """Return (page, words) of every command line in the pages' shell blocks, without prompts and comments."""
    shown = []
    for page in PAGES:
        for block in FENCE.findall(page.read_text()):
            for line in block.replace("\\\n", " ").splitlines():
                words = shlex.split(line.removeprefix("$ "), comments=True)
                if words:
                    shown.append((named(page), words))
    return shown


SHOWN = _shown_commands()


def _parse(command: Any, name: str, words: list[str], parent: Any = None) -> None:
    """Parse as the program does, without running anything; raises what the program would report."""
    context = command.make_context(name, list(words), parent=parent)
    if isinstance(command, typer.core.TyperGroup):
        name, inner, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        _parse(inner, name, rest, context)


def _named(shown: tuple[str, list[str]]) -> str:
    return f"{shown[0]}: {shlex.join(shown[1])}"


@pytest.mark.parametrize("shown", [s for s in SHOWN if s[1][0] == "specc"], ids=_named)
def test_specc_commands_parse(shown: tuple[str, list[str]]) -> None:
    _parse(typer.main.get_command(app), "specc", shown[1][1:])


@pytest.mark.parametrize("shown", [s for s in SHOWN if s[1][0] == "make"], ids=_named)
def test_make_targets_exist(shown: tuple[str, list[str]]) -> None:
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert [word for word in shown[1][1:] if "=" not in word and word not in targets] == []


def test_the_readme_shows_both_commands_and_a_quick_start() -> None:
    readme = [words for page, words in SHOWN if page == "README.md"]
    assert ["make", "demo"] in readme
    assert ["make", "test"] in readme
    assert {"check", "plan", "build", "verify", "run"} <= {words[1] for words in readme if words[0] == "specc"}


def test_links_inside_the_project_lead_somewhere() -> None:
    dead = [
        f"{named(page)} -> {target}"
        for page in PAGES
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text())
        if "://" not in target and not (page.parent / target).exists()
    ]
    assert not dead
