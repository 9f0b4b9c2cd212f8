"""The tokens of a tokenizer, asked for once: the library builds a new dict of all of them each time."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from specc.plan.same_tokens import PADDING

if TYPE_CHECKING:
    from tokenizers import Tokenizer


@lru_cache(maxsize=2)
def tokens_by_id(tokenizer: Tokenizer) -> dict[int, str]:
    """Return the token of each id, added ones included, padding left out."""
    vocabulary: dict[str, int] = tokenizer.get_vocab(with_added_tokens=True)
    return {i: token for token, i in vocabulary.items() if not (token.startswith("[PAD") and PADDING.fullmatch(token))}
