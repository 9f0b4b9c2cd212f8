"""The tokens of a tokenizer by id, asked for once: the library builds a new dict of all of them each time."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# How GGUF files name the rows of the embedding beyond the tokenizer.
PADDING: Final = re.compile(r"\[PAD\d+\]")


@dataclass(frozen=True)
class Vocabulary:
    """The tokens of a finished tokenizer.

    Attributes:
        tokens: by id, added ones included, padding left out.
        known_ids: highest id of any token plus one, padding included.
    """

    tokens: dict[int, str]
    known_ids: int


@lru_cache(maxsize=2)
def vocabulary_from_tokenizer(tokenizer: Tokenizer) -> Vocabulary:
    """Return the vocabulary of a tokenizer to which nothing is added any more; the last two are kept."""
    ids: dict[str, int] = tokenizer.get_vocab(with_added_tokens=True)
    tokens = {i: token for token, i in ids.items() if not (token.startswith("[PAD") and PADDING.fullmatch(token))}
    return Vocabulary(tokens, max(ids.values(), default=-1) + 1)
