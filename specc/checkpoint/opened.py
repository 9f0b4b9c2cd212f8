"""An opened source checkpoint: what every file format is turned into."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from specc.checkpoint.facts import ModelFacts, TokenFacts
from specc.checkpoint.source import Float32Array, TensorHeader
from specc.errors import SpeccError

if TYPE_CHECKING:
    from tokenizers import Tokenizer


@dataclass(frozen=True)
class OpenedCheckpoint:
    """A `SourceCheckpoint`; see there for the meaning of the fields.

    Attributes:
        float32_from_header: reads and converts one tensor, in the format's own way.
        built_tokenizer: what `tokenizer()` returns, always the same object.
    """

    uri: str
    revision: str | None
    facts: ModelFacts
    tokens: TokenFacts
    headers: dict[str, TensorHeader]
    files: tuple[Path, ...]
    float32_from_header: Callable[[TensorHeader], Float32Array]
    built_tokenizer: Tokenizer | None

    def read_float32(self, name: str) -> Float32Array:
        """Return one tensor as float32, of the shape its header states.

        Raises:
            SpeccError: SPC206 the file changed, SPC222 an unreadable encoding, SPC223 not finite.
        """
        header = self.headers[name]
        # damaged block scales overflow on the way; the check below says so in words
        with np.errstate(over="ignore", invalid="ignore"):
            numbers = self.float32_from_header(header)
        # minimum and maximum carry a NaN or an infinity through, without an array of flags
        if numbers.size and not (math.isfinite(numbers.min()) and math.isfinite(numbers.max())):
            raise SpeccError(
                "SPC223",
                f"{header.file} {name}",
                "some of its numbers are infinite or not a number",
                "every text of the model would be garbage",
                "download the file again and compare its digest with the source",
            )
        return numbers

    def tokenizer(self) -> Tokenizer | None:
        """Return the tokenizer, or None when the checkpoint has none."""
        return self.built_tokenizer

    def with_files(self, extra: tuple[Path, ...]) -> OpenedCheckpoint:
        """Return the checkpoint with more files behind its own, as a chat template of the recipe's."""
        return dataclasses.replace(self, files=files_once([*self.files, *extra]))


def files_once(files: list[Path]) -> tuple[Path, ...]:
    """Return the files in their order, each once."""
    return tuple(dict.fromkeys(files))
