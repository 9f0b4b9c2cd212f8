"""The tokens of a tokenizer by spelling and id, and where two vocabularies differ."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# How GGUF files name the rows of the embedding beyond the tokenizer.
PADDING_START: Final = "[PAD"
PADDING: Final = re.compile(r"\[PAD\d+\]")


@dataclass(frozen=True)
class Vocabulary:
    """The tokens of a finished tokenizer.

    Attributes:
        kind: how it splits text: `BPE`, `Unigram`, `WordPiece` or `WordLevel`.
        ids: by spelling, added tokens and padding included.
        added: ids of the added tokens, special ones among them.
    """

    kind: str
    ids: dict[str, int]
    added: frozenset[int]

    @cached_property
    def known_ids(self) -> int:
        """Highest id of any token plus one, padding included."""
        return max(self.ids.values(), default=-1) + 1

    @cached_property
    def padding(self) -> frozenset[str]:
        """The spellings that stand for rows of an embedding, and for no token."""
        if PADDING_START not in "".join(self.ids):
            return frozenset()
        return frozenset(token for token in self.ids if PADDING.fullmatch(token))

    @property
    def token_count(self) -> int:
        """Number of tokens, padding left out."""
        return len(self.ids) - len(self.padding)

    @cached_property
    def token_ids(self) -> int:
        """Highest id of a token plus one, padding left out."""
        if not self.padding:
            return self.known_ids
        return max((i for token, i in self.ids.items() if token not in self.padding), default=-1) + 1

    def tokens(self, ids: Collection[int]) -> dict[int, str]:
        """Return the tokens of some ids, padding left out."""
        return {i: token for token, i in self.ids.items() if i in ids and token not in self.padding}


def vocabulary_from_tokenizer(tokenizer: Tokenizer) -> Vocabulary:
    """Return the vocabulary of a tokenizer to which nothing is added any more."""
    ids: dict[str, int] = tokenizer.get_vocab(with_added_tokens=True)
    return Vocabulary(type(tokenizer.model).__name__, ids, frozenset(tokenizer.get_added_tokens_decoder()))


def differing_ids(ours: Vocabulary, theirs: Vocabulary) -> list[int]:
    """Return the ids, ascending, that do not mean the same token in both; padding means none."""
    if ours.ids == theirs.ids:
        return []
    return sorted({*_only_here(ours, theirs), *_only_here(theirs, ours)})


def _only_here(one: Vocabulary, other: Vocabulary) -> Iterator[int]:
    there = other.ids
    return (i for token, i in one.ids.items() if there.get(token) != i and token not in one.padding)
