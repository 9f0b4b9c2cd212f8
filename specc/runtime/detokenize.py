"""Incremental decoding that is exact: the pieces join to what the tokenizer makes of all ids at once."""

from __future__ import annotations

import re
from typing import Final, Protocol

REPLACEMENT: Final = "\ufffd"
BYTE_TOKEN: Final = re.compile(r"<0x[0-9A-Fa-f]{2}>")


class Decoder(Protocol):
    """The two methods of `tokenizers.Tokenizer` that decoding needs."""

    def decode(self, ids: list[int], /) -> str:
        """Return the text of ids, special tokens left out."""

    def id_to_token(self, token: int, /) -> str | None:
        """Return the token's spelling in the vocabulary."""


class Detokenizer:
    """Decodes one generation token by token.

    Only a window is decoded: the tokens of the piece before last, which give context (decoders strip a leading space
    at the start of a text), and those after it. What a later token can still change is held back: a final U+FFFD, which
    may be the first bytes of a character, and a run of byte-fallback tokens, of which one bad byte spoils all.
    """

    def __init__(self, tokenizer: Decoder) -> None:
        self._tokenizer = tokenizer
        self._window: list[int] = []
        self._settled = 0  # tokens of the window whose text is out
        self._emitted = 0  # characters of the window's text that are out
        self._in_bytes = False  # the window ends in a run of byte-fallback tokens

    def push(self, token: int) -> str:
        """Take the next token and return the text that is final now, often that of the token, sometimes none."""
        self._window.append(token)
        self._in_bytes = self._is_byte(token) or (self._in_bytes and not self._tokenizer.decode([token]))
        if self._in_bytes:  # tokens without text, special ones say, do not end a run
            return ""
        text = self._tokenizer.decode(self._window)
        whole = not text.endswith(REPLACEMENT)
        piece = self._take(text if whole else text[:-1])
        if whole:
            self._advance()
        return piece

    def flush(self) -> str:
        """Return the text that was held back; call it once, at the end."""
        return self._take(self._tokenizer.decode(self._window))

    def _is_byte(self, token: int) -> bool:
        spelling = self._tokenizer.id_to_token(token)
        return spelling is not None and BYTE_TOKEN.fullmatch(spelling) is not None

    def _take(self, text: str) -> str:
        piece = text[self._emitted :]
        self._emitted = max(self._emitted, len(text))
        return piece

    def _advance(self) -> None:
        context = self._window[self._settled :]
        context_text = self._tokenizer.decode(context)
        if context_text:  # a context without text would look like the start of a text
            self._window = context
            self._emitted = len(context_text)
        self._settled = len(self._window)
