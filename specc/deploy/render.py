"""From a template and typed values to a file; whatever reaches a shell is quoted."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import jinja2

from specc.recipe.templates import templates_folder

TEMPLATES: Final = "deploy"


@dataclass(frozen=True)
class Rendered:
    """One file of a bundle.

    Attributes:
        template: below `templates/deploy`.
        file: path in the bundle; `{label}` stands for the bundle's label.
        executable: a script.
    """

    template: str
    file: str
    executable: bool = False


def deploy_environment() -> jinja2.Environment:
    """Return the environment of these templates; an undefined variable is an error."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(templates_folder() / TEMPLATES),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,  # noqa: S701 - shell, YAML and JSON; each value has the filter of its language
    )
    environment.filters["quoted"] = shlex.quote
    environment.filters["command"] = command_text
    environment.filters["words"] = shlex.join
    environment.filters["json"] = json.dumps  # a JSON string is a YAML string as well
    return environment


def write_rendered(rendered: Rendered, values: Mapping[str, object], bundle: Path, *, label: str) -> None:
    """Write one file below the bundle's folder.

    Args:
        rendered: which.
        values: records by the name that the template knows them by.
        bundle: the folder.
        label: of the bundle.
    """
    path = bundle / rendered.file.format(label=label)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(deploy_environment().get_template(rendered.template).render(values), encoding="utf-8")
    if rendered.executable:
        path.chmod(0o755)


def command_text(arguments: Sequence[str], indent: int = 4) -> str:
    """Return a command as lines of a shell script, each option with its value on a line of its own."""
    lines: list[str] = []
    for argument in arguments:
        if lines and not argument.startswith("-"):
            lines[-1] += f" {shlex.quote(argument)}"
        else:
            lines.append(shlex.quote(argument))
    return (" \\\n" + " " * indent).join(lines)
