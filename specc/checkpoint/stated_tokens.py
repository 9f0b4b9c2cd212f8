"""Tokens that only tokenizer_config.json states, under `added_tokens_decoder`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from specc.checkpoint.tokenizer_parts import damaged_tokenizer
from specc.checkpoint.values import Values, shortened
from specc.checkpoint.vocabulary import Vocabulary

if TYPE_CHECKING:
    from tokenizers import Tokenizer


@dataclass(frozen=True)
class StatedToken:
    """One entry; the flags are those of the tokenizers library's `AddedToken`."""

    token_id: int
    place: str
    content: str
    single_word: bool
    lstrip: bool
    rstrip: bool
    normalized: bool
    special: bool


def stated_tokens(config: Values | None) -> tuple[StatedToken, ...]:
    """Return the tokens that a tokenizer_config.json states, ascending by id; those without a content are left out.

    Raises:
        SpeccError: SPC210 an entry of another type, SPC240 a key that is no token id.
    """
    stated = None if config is None else config.nested("added_tokens_decoder")
    if stated is None:
        return ()
    ids = {}
    for key in stated.mapping:
        if not key.isascii() or not key.isdigit() or len(key) > 9:
            raise damaged_tokenizer(stated.place(key), "the key is not a token id")
        ids[int(key)] = key
    tokens = []
    for token_id, key in sorted(ids.items()):
        entry = stated.nested(key)
        content = "" if entry is None else entry.text("content")
        if entry is None or not content:
            continue
        tokens.append(
            StatedToken(
                token_id=token_id,
                place=stated.place(key),
                content=content,
                single_word=entry.boolean("single_word", False),
                lstrip=entry.boolean("lstrip", False),
                rstrip=entry.boolean("rstrip", False),
                normalized=entry.boolean("normalized", True),
                special=entry.boolean("special", False),
            )
        )
    return tuple(tokens)


def check_stated_ids(vocabulary: Vocabulary, tokens: tuple[StatedToken, ...]) -> None:
    """Refuse a token that has another id in the finished vocabulary than the one that is stated.

    Raises:
        SpeccError: SPC240.
    """
    for token in tokens:
        given = vocabulary.ids.get(token.content)
        if given != token.token_id:
            raise damaged_tokenizer(
                token.place, f"{shortened(token.content)} should be {token.token_id}, tokenizer.json makes it {given}"
            )


def add_stated_tokens(tokenizer: Tokenizer, tokens: tuple[StatedToken, ...]) -> None:
    """Add those that the tokenizer does not have under the stated id."""
    from tokenizers import AddedToken

    for token in tokens:
        if tokenizer.token_to_id(token.content) != token.token_id:
            tokenizer.add_tokens(
                [
                    AddedToken(
                        token.content,
                        single_word=token.single_word,
                        lstrip=token.lstrip,
                        rstrip=token.rstrip,
                        normalized=token.normalized,
                        special=token.special,
                    )
                ]
            )
