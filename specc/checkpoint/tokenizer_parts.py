"""What a checkpoint's tokenizer tells: the tokenizer itself, its special tokens and the chat template."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from specc.checkpoint.vocabulary import Vocabulary
from specc.errors import SpeccError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

T = TypeVar("T")


@dataclass(frozen=True)
class TokenizerParts:
    """A tokenizer and what belongs to it, whatever files stated it.

    Attributes:
        vocabulary: its tokens; None when the checkpoint has none.
        tokenizer_from_files: builds the tokenizer, the same object at every call, which encodes plain text without
            adding anything: beginning-of-sequence is `add_bos`'s affair, truncation and padding are off. None when
            the checkpoint has none.
        bos_id, eos_id: as the tokenizer states them.
        add_bos: whether encoding plain text puts bos_id first.
        stop_ids: every end-of-sequence id that the tokenizer's files state.
        chat_template: jinja2 text, or None.
        files: what was read, in a stable order.
    """

    vocabulary: Vocabulary | None
    tokenizer_from_files: Callable[[], Tokenizer] | None
    bos_id: int | None
    eos_id: int | None
    add_bos: bool
    stop_ids: tuple[int, ...]
    chat_template: str | None
    files: tuple[Path, ...]

    @property
    def known_ids(self) -> int | None:
        """Highest id of a token plus one; None without a tokenizer."""
        return None if self.vocabulary is None else self.vocabulary.known_ids


def guarded(place: str, call: Callable[[], T]) -> T:
    """Return call(), where the tokenizers library's failures become one coded error.

    The library raises bare `Exception`, and its Rust panics derive from BaseException.

    Raises:
        SpeccError: SPC240 the library refuses the data.
    """
    try:
        return call()
    except (SpeccError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001 - see above
        raise damaged_tokenizer(place, f"the tokenizers library refuses it: {str(error)[:200]}") from None


def damaged_tokenizer(place: str, got: str) -> SpeccError:
    """Return the error for tokenizer data that is damaged or contradicts itself."""
    return SpeccError(
        "SPC240",
        place,
        got,
        "text would become wrong token ids",
        "download the tokenizer's files again, or name another tokenizer in the recipe's `tokenizer`",
    )
