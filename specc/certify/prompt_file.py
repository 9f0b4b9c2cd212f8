"""Prompts in JSON lines: what `--prompts` and the recipe's `certify.prompts` name."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias

from specc.errors import SpeccError
from specc.runtime import Session


@dataclass(frozen=True)
class Chat:
    """A conversation that goes through the bundle's chat template."""

    messages: tuple[dict[str, str], ...]


PromptInput: TypeAlias = str | Sequence[int] | Chat


@dataclass(frozen=True)
class PromptFile:
    """The prompts of a file, and the digest of the file."""

    prompts: tuple[PromptInput, ...]
    sha256: str


def prompts_from_jsonl(file: Path, *, chat: bool) -> PromptFile:
    """Return the prompts of a JSONL file, one a line; empty lines are skipped.

    Args:
        file: a line is a string, a list of token ids, or an object with `prompt` or `messages`; `-` is standard input.
        chat: plain texts become the user's message of a chat.

    Raises:
        SpeccError: SPC903, with the line.
    """
    data = bytes_from_file(file)
    lines = enumerate(text_from_bytes(data, file).split("\n"), start=1)
    found = tuple(_input_from_line(line, f"{file}:{number}", chat=chat) for number, line in lines if line.strip())
    if not found:
        raise unreadable(str(file), "no prompt in it")
    return PromptFile(found, sha256(data).hexdigest())


def ids_from_input(session: Session, prompt: PromptInput) -> tuple[int, ...]:
    """Return the token ids of a prompt in the bundle's tokenizer.

    Raises:
        SpeccError: SPC709 the bundle has no tokenizer, SPC710 no chat template.
    """
    if isinstance(prompt, Chat):
        return tuple(session.ids_from_chat(prompt.messages))
    return tuple(session.ids_from_text(prompt)) if isinstance(prompt, str) else tuple(prompt)


def input_from_text(text: str, *, chat: bool) -> PromptInput:
    """Return a plain text as a prompt, or as the user's message of a chat."""
    return Chat(({"role": "user", "content": text},)) if chat else text


def bytes_from_file(file: Path) -> bytes:
    """Return what a file holds; `-` is standard input.

    Raises:
        SpeccError: SPC903 it cannot be read.
    """
    try:
        return sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise unreadable(str(file), str(error)) from None


def text_from_bytes(data: bytes, file: Path) -> str:
    """Return UTF-8 text, without a byte order mark; `file` is named by the error.

    Raises:
        SpeccError: SPC903 it is not UTF-8.
    """
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise unreadable(str(file), str(error)) from None


def unreadable(place: str, got: str) -> SpeccError:
    """Return SPC903."""
    return SpeccError(
        "SPC903", place, got, "prompts are UTF-8 text, in a .jsonl file one JSON value a line", "correct the file"
    )


def _input_from_line(line: str, place: str, *, chat: bool) -> PromptInput:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise unreadable(place, f"not JSON: {error}") from None
    if isinstance(value, dict) and "messages" in value:
        return _chat(value["messages"], place)
    if isinstance(value, dict):
        value = value.get("prompt")
    if isinstance(value, str):
        return input_from_text(value, chat=chat)
    if isinstance(value, list) and all(type(token) is int for token in value):
        if chat:
            raise SpeccError(
                "SPC903",
                place,
                "token ids, with --chat",
                "a chat template writes around the user's text, and ids have been written already",
                "give the text, or leave out --chat, or write the chat as `messages`",
            )
        return tuple(value)
    raise unreadable(place, "neither a string, a list of token ids, nor an object with `prompt` or `messages`")


def _chat(messages: Any, place: str) -> Chat:  # noqa: ANN401 - any JSON value
    if isinstance(messages, list) and messages and all(_is_message(item) for item in messages):
        return Chat(tuple(messages))
    raise unreadable(place, "`messages` is not a list of objects with `role` and `content`, both text")


def _is_message(item: object) -> bool:
    return isinstance(item, dict) and set(item) == {"role", "content"} and all(type(v) is str for v in item.values())
