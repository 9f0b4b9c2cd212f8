"""A strict parser of the text form of protocol buffers, for configurations of Triton's models."""

from __future__ import annotations

import re
from typing import Any

TOKEN = re.compile(r'\s*(?:#[^\n]*\n\s*)*("(?:[^"\\\n]|\\.)*"|[A-Za-z_]\w*|-?\d+(?:\.\d+)?|[{}\[\]:,])')


class Parser:
    def __init__(self, text: str) -> None:
        self.tokens: list[str] = []
        text, at = text.rstrip() + "\n", 0
        while text[at:].strip():
            found = TOKEN.match(text, at)
            assert found, f"no token at {text[at : at + 40]!r}"
            self.tokens.append(found.group(1))
            at = found.end()
        self.at = 0

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self, *expected: str) -> str:
        token = self.peek()
        assert token
        assert not expected or token in expected, f"{token!r}, expected {expected}"
        self.at += 1
        return token

    def message(self, end: str = "") -> dict[str, Any]:
        fields: dict[str, Any] = {}
        while self.peek() != end:
            name = self.take()
            assert name.isidentifier(), name
            assert name not in fields, f"{name} twice"
            if self.peek() == ":":
                self.take()
            else:
                assert self.peek() in ("{", "["), f"{name} has no value"
            fields[name] = self.value()
        return fields

    def value(self) -> Any:
        token = self.take()
        if token == "{":
            fields = self.message("}")
            self.take("}")
            return fields
        if token == "[":
            items = []
            while self.peek() != "]":
                items.append(self.value())
                if self.peek() != "]":
                    self.take(",")
                    assert self.peek() != "]", "a comma before ]"
            self.take("]")
            return items
        if token.startswith('"'):
            return token[1:-1]
        if token in ("true", "false"):
            return token == "true"
        assert token.lstrip("-").replace(".", "").isdigit() or re.fullmatch(r"[A-Z][A-Z0-9_]*", token), token
        return int(token) if token.lstrip("-").isdigit() else token


def parsed(text: str) -> dict[str, Any]:
    """Return the fields of a message; repeated ones must stand in brackets."""
    parser = Parser(text)
    fields = parser.message()
    assert parser.at == len(parser.tokens)
    return fields
