"""Chat templates: jinja2 in a sandbox, with the names and rules that templates on model hubs rely on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NoReturn, TypeAlias

from jinja2 import TemplateError
from jinja2.ext import Extension
from jinja2.nodes import Node
from jinja2.parser import Parser

from specc.errors import SpeccError
from specc.runtime.bounded_jinja import BoundedEnvironment, bounded_text

Message: TypeAlias = Mapping[str, Any]
MAX_INDENT: Final = 64

# What a template's own arithmetic on unexpected messages raises, beside jinja2's errors.
_FAILURES = (TemplateError, TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError)


class _GenerationBlock(Extension):
    """`{% generation %}` marks what the assistant says, for training; it renders as its content."""

    tags = {"generation"}  # noqa: RUF012 - jinja2's own declaration

    def parse(self, parser: Parser) -> list[Node]:
        next(parser.stream)
        return list(parser.parse_statements(("name:endgeneration",), drop_needle=True))


class ChatTemplate:
    """A compiled chat template.

    Args:
        source: jinja2 text.
        place: the template's file, for errors.
        special_tokens: `bos_token` and `eos_token` as text, where the tokenizer has them.

    Raises:
        SpeccError: SPC710 it is not jinja2.
    """

    def __init__(self, source: str, place: str, special_tokens: Mapping[str, str]) -> None:
        environment = BoundedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationBlock, "jinja2.ext.loopcontrols"]
        )
        environment.add_filter("tojson", _tojson)
        environment.globals["raise_exception"] = _raise_exception
        environment.globals["strftime_now"] = _strftime_now
        self._environment = environment
        self._place = place
        self._special_tokens = dict(special_tokens)
        try:
            self._template = environment.from_string(source)
        except TemplateError as error:
            raise self._refusal(error) from None

    def render(self, messages: Sequence[Message], *, add_generation_prompt: bool = True) -> str:
        """Return the prompt of a conversation.

        Args:
            messages: each with `role` and `content`, in order.
            add_generation_prompt: end with what makes the assistant answer.

        Raises:
            SpeccError: SPC710 the template refused the messages, failed on them, or takes too much time or memory.
        """
        try:
            self._environment.work = 0
            return bounded_text(
                self._template.generate(
                    messages=list(messages), add_generation_prompt=add_generation_prompt, **self._special_tokens
                )
            )
        except _FAILURES as error:
            raise self._refusal(error) from None

    def _refusal(self, error: Exception) -> SpeccError:
        return SpeccError(
            "SPC710",
            self._place,
            f"{type(error).__name__}: {error}",
            "the chat template decides which conversations it takes, and how they become a prompt",
            "give messages with `role` and `content` in the order that the model's template asks for",
        )


def _tojson(
    value: object, *, indent: int | None = None, ensure_ascii: bool = False, sort_keys: bool = False
) -> str:  # jinja2's own filter escapes HTML
    if indent is not None and indent > MAX_INDENT:
        raise TemplateError(f"tojson indents by {indent}, at most {MAX_INDENT} is possible")
    return json.dumps(value, indent=indent, ensure_ascii=ensure_ascii, sort_keys=sort_keys)


def _raise_exception(message: str) -> NoReturn:
    raise TemplateError(message)


def _strftime_now(form: str) -> str:
    return datetime.now().astimezone().strftime(form)
