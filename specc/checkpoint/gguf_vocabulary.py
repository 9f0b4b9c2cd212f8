"""The token lists of a GGUF file, checked against each other."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum

from specc.checkpoint.tokenizer_parts import damaged_tokenizer
from specc.checkpoint.values import Values, shortened


class TokenType(IntEnum):
    """Kinds of tokens, by their number in tokenizer.ggml.token_type."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


@dataclass(frozen=True)
class GgufVocabulary:
    """Tokens by id, without the unused ones at the end, which only pad the embedding.

    Attributes:
        tokens: spelling of each token.
        types: kind of each token.
        ids: id of each spelling.
    """

    tokens: tuple[str, ...]
    types: tuple[TokenType, ...]
    ids: dict[str, int]

    def of_types(self, *types: TokenType) -> list[str]:
        """Return the spellings of the given kinds, ascending by id."""
        return [token for token, kind in zip(self.tokens, self.types, strict=True) if kind in types]


def vocabulary_from_metadata(values: Values) -> GgufVocabulary:
    """Return the vocabulary of a GGUF file.

    Raises:
        SpeccError: SPC210 a list has the wrong type, SPC240 lists contradict each other.
    """
    key, type_key = "tokenizer.ggml.tokens", "tokenizer.ggml.token_type"
    tokens = values.texts(key)
    if not tokens:
        raise damaged_tokenizer(values.place(key), "the list of tokens is missing or empty")
    stated = integers_from_metadata(values, type_key) or (TokenType.NORMAL,) * len(tokens)
    if len(stated) != len(tokens):
        raise damaged_tokenizer(values.place(type_key), f"{len(stated)} types for {len(tokens)} tokens")
    known = {int(kind) for kind in TokenType}
    unknown = next((i for i, kind in enumerate(stated) if kind not in known), None)
    if unknown is not None:
        raise damaged_tokenizer(values.place(type_key), f"token {unknown} has the unknown type {stated[unknown]}")
    end = len(tokens)
    while end > 0 and stated[end - 1] == TokenType.UNUSED:
        end -= 1
    if end == 0:
        raise damaged_tokenizer(values.place(type_key), "every token is marked unused")
    tokens = tokens[:end]
    ids = {token: i for i, token in enumerate(tokens)}
    if len(ids) != len(tokens):
        i = next(i for i, token in enumerate(tokens) if ids[token] != i)
        raise damaged_tokenizer(
            values.place(key), f"{shortened(tokens[i])} stands twice, as token {i} and {ids[tokens[i]]}"
        )
    return GgufVocabulary(tokens, tuple(TokenType(kind) for kind in stated[:end]), ids)


def integers_from_metadata(values: Values, key: str) -> tuple[int, ...] | None:
    """Return a list of integers, None where it is absent.

    Raises:
        SpeccError: SPC240 it is something else.
    """
    stated = values.mapping.get(key)
    if stated is None:
        return None
    if not isinstance(stated, list) or not all(type(item) is int for item in stated):
        raise damaged_tokenizer(values.place(key), f"got {shortened(stated)}, expected a list of integers")
    return tuple(stated)


def numbers_from_metadata(values: Values, key: str) -> tuple[float, ...] | None:
    """Return a list of finite numbers, None where it is absent.

    Raises:
        SpeccError: SPC240 it is something else.
    """
    stated = values.mapping.get(key)
    if stated is None:
        return None
    numeric = isinstance(stated, list) and all(type(item) in (int, float) and math.isfinite(item) for item in stated)
    if not isinstance(stated, list) or not numeric:
        raise damaged_tokenizer(values.place(key), f"got {shortened(stated)}, expected a list of finite numbers")
    return tuple(float(item) for item in stated)
