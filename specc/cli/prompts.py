"""Prompts from the command line: text, a file, or JSON lines."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from specc.errors import SpeccError
from specc.runtime import Session


@dataclass(frozen=True)
class Chat:
    """A conversation that goes through the bundle's chat template."""

    messages: tuple[dict[str, str], ...]


PromptInput: TypeAlias = str | tuple[int, ...] | Chat


def prompts_from_options(
    prompt: str | None, prompt_file: Path | None, prompts: Path | None, *, chat: bool
) -> list[PromptInput]:
    """Return the prompts that exactly one of the three options states; `-` as a file is standard input.

    Args:
        prompt: text.
        prompt_file: a UTF-8 file that is one prompt.
        prompts: a JSONL file: a line is a string, a list of token ids, or an object with `prompt` or `messages`.
        chat: plain texts become the user's message of a chat.

    Raises:
        SpeccError: SPC902 none or several were given, SPC903 the file is unreadable.
    """
    options = {"--prompt": prompt, "--prompt-file": prompt_file, "--prompts": prompts}
    given = [name for name, value in options.items() if value is not None]
    if len(given) != 1:
        raise SpeccError(
            "SPC902",
            "command line",
            f"got {' and '.join(given) or 'no prompt'}",
            "the prompts come from one place",
            "give one of --prompt TEXT, --prompt-file FILE and --prompts FILE.jsonl",
        )
    if prompts is not None:
        return prompts_from_jsonl(prompts, chat=chat)
    return [_input(_text(prompt_file) if prompt_file is not None else str(prompt), chat=chat)]


def prompts_from_jsonl(file: Path, *, chat: bool) -> list[PromptInput]:
    """Return the prompts of a JSONL file, one a line; empty lines are skipped.

    Raises:
        SpeccError: SPC903, with the line.
    """
    lines = enumerate(_text(file).split("\n"), start=1)
    found = [_input_from_line(line, f"{file}:{number}", chat=chat) for number, line in lines if line.strip()]
    if not found:
        raise _unreadable(str(file), "no prompt in it")
    return found


def ids_from_input(session: Session, prompt: PromptInput) -> tuple[int, ...]:
    """Return the token ids of a prompt in the bundle's tokenizer.

    Raises:
        SpeccError: SPC709 the bundle has no tokenizer, SPC710 no chat template.
    """
    if isinstance(prompt, Chat):
        return tuple(session.ids_from_chat(prompt.messages))
    return tuple(session.ids_from_text(prompt)) if isinstance(prompt, str) else prompt


def _input_from_line(line: str, place: str, *, chat: bool) -> PromptInput:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _unreadable(place, f"not JSON: {error}") from None
    if isinstance(value, dict) and "messages" in value:
        return _chat(value["messages"], place)
    if isinstance(value, dict):
        value = value.get("prompt")
    if isinstance(value, str):
        return _input(value, chat=chat)
    if isinstance(value, list) and all(type(token) is int for token in value):
        return tuple(value)
    raise _unreadable(place, "neither a string, a list of token ids, nor an object with `prompt` or `messages`")


def _chat(messages: Any, place: str) -> Chat:  # noqa: ANN401 - any JSON value
    if isinstance(messages, list) and messages and all(_is_message(item) for item in messages):
        return Chat(tuple(messages))
    raise _unreadable(place, "`messages` is not a list of objects with `role` and `content`, both text")


def _is_message(item: object) -> bool:
    return isinstance(item, dict) and set(item) == {"role", "content"} and all(type(v) is str for v in item.values())


def _input(text: str, *, chat: bool) -> PromptInput:
    return Chat(({"role": "user", "content": text},)) if chat else text


def _text(file: Path) -> str:
    try:
        data = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
        return data.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(str(file), str(error)) from None


def _unreadable(place: str, got: str) -> SpeccError:
    return SpeccError(
        "SPC903", place, got, "prompts are UTF-8 text, in a .jsonl file one JSON value a line", "correct the file"
    )
