"""The chat template of a checkpoint, as text: its syntax is checked, but nothing of it is run here."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from jinja2 import Environment, TemplateSyntaxError

from specc.checkpoint.values import Values, shortened, text_from_file
from specc.errors import SpeccError

TEMPLATE_FILE: Final = "chat_template.jinja"
MAX_TEMPLATE_BYTES: Final = 4 << 20

# Marks what the assistant says, for training; the runtime renders its content.
_TRAINING_MARK: Final = re.compile(r"\{%[-+]?\s*(end)?generation\s*[-+]?%\}")


def template_from_folder(folder: Path, config: Values | None) -> str | None:
    """Return the template of a folder: chat_template.jinja before the key in tokenizer_config.json; None without both.

    Args:
        folder: of the tokenizer files.
        config: tokenizer_config.json, None where there is none.

    Raises:
        SpeccError: SPC206 or SPC210 unreadable, SPC242 several named templates and none is `default`.
    """
    file = folder / TEMPLATE_FILE
    if file.is_file():
        return text_from_file(file, MAX_TEMPLATE_BYTES)
    if config is None or "chat_template" not in config:
        return None
    stated = config.mapping["chat_template"]
    return _from_named(config, stated) if isinstance(stated, list) else config.text("chat_template")


def template_from_file(path: Path) -> str:
    """Return the template that a recipe names by path.

    Raises:
        SpeccError: SPC242 there is no such file, SPC206 or SPC210 unreadable.
    """
    if not path.is_file():
        raise SpeccError(
            "SPC242",
            str(path),
            "there is no such file",
            "the recipe names it as chat_template",
            "give the path of a jinja2 file, relative to the recipe's folder",
        )
    return text_from_file(path, MAX_TEMPLATE_BYTES)


def check_template(text: str, place: str) -> None:
    """Refuse a template that is not jinja2; it is parsed, not compiled, so nothing of it is evaluated.

    Args:
        text: jinja2.
        place: the file or the reference that states it.

    Raises:
        SpeccError: SPC242, with the line.
    """
    try:
        Environment(extensions=["jinja2.ext.loopcontrols"], autoescape=False).parse(_TRAINING_MARK.sub("", text))  # noqa: S701
    except TemplateSyntaxError as error:
        raise SpeccError(
            "SPC242",
            f"{place} line {error.lineno}",
            str(error.message),
            "chats are rendered through it",
            "correct the template, or name another one in the recipe's `chat_template`",
        ) from None


def _from_named(config: Values, stated: list[object]) -> str:
    named: dict[str, str] = {}
    for i, item in enumerate(stated):
        if not isinstance(item, dict):
            raise SpeccError(
                "SPC210",
                config.place(f"chat_template[{i}]"),
                f"got {shortened(item)}, expected an object with name and template",
                "it should be a chat template",
                "use the file as the model's authors publish it",
            )
        entry = Values(config.path, item, f"chat_template[{i}].")
        named[entry.text("name")] = entry.text("template")
    if "default" in named:
        return named["default"]
    if len(named) == 1:
        return next(iter(named.values()))
    raise SpeccError(
        "SPC242",
        config.place("chat_template"),
        f"templates {', '.join(sorted(named)) or 'none'}; no `default`",
        "specc would have to guess which one chats",
        "save one as a file and name it in the recipe's `chat_template`",
    )
