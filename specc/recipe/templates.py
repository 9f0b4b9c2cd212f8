"""Where the jinja2 templates are, and how they are rendered."""

from __future__ import annotations

from pathlib import Path

import jinja2

from specc.errors import SpeccBug


def template_environment() -> jinja2.Environment:
    """Return the environment that loads specc's templates by file name; an undefined variable is an error."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(templates_folder()),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - what is rendered is YAML and text, not HTML
    )


def templates_folder() -> Path:
    """Return the templates of the installed package, or of the checkout that an editable install points into."""
    package = Path(__file__).resolve().parent.parent
    for folder in (package / "_templates", package.parent / "templates"):
        if folder.is_dir():
            return folder
    raise SpeccBug(f"no templates beside {package}: the installation is incomplete")
