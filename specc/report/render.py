"""The page as one HTML file: style and drawings inside, no script, nothing to load."""

from __future__ import annotations

import jinja2

from specc.recipe.templates import templates_folder
from specc.report.page import Page

TEMPLATE = "report.html.j2"
STYLE = "report.css"


def html_from_page(page: Page) -> str:
    """Return the file's text; whatever comes from recipes and configurations is escaped."""
    folder = templates_folder()
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    style = (folder / STYLE).read_text(encoding="utf-8")
    return environment.get_template(TEMPLATE).render(page=page, style=style)
