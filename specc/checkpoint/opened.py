"""An opened source checkpoint: what every file format is turned into."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from specc.catalog.weight_formats import WeightFormat
from specc.checkpoint.facts import ModelFacts, TokenFacts
from specc.checkpoint.plain_tensor import not_finite
from specc.checkpoint.source import Float32Array, TensorHeader
from specc.checkpoint.vocabulary import Vocabulary
from specc.quantize.quantized import QuantizedWeight

if TYPE_CHECKING:
    from tokenizers import Tokenizer


@dataclass(frozen=True)
class OpenedCheckpoint:
    """A `SourceCheckpoint`; see there for the meaning of the fields.

    Attributes:
        float32_from_header: reads and converts one tensor, in the format's own way.
        quantized_from_header: reads one of `quantized_formats`.
        vocabulary: of the tokenizer.
        tokenizer_from_files: what `tokenizer()` asks, always for the same object.
    """

    uri: str
    revision: str | None
    facts: ModelFacts
    tokens: TokenFacts
    headers: dict[str, TensorHeader]
    files: tuple[Path, ...]
    float32_from_header: Callable[[TensorHeader], Float32Array]
    quantized_formats: Mapping[str, WeightFormat]
    quantized_from_header: Callable[[TensorHeader], QuantizedWeight]
    cache_scales: Mapping[str, TensorHeader]
    quantization_notes: tuple[str, ...]
    vocabulary: Vocabulary | None
    tokenizer_from_files: Callable[[], Tokenizer] | None

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
            raise not_finite(header)
        return numbers

    def read_quantized(self, name: str) -> QuantizedWeight:
        """Return one quantized matrix as it is stored.

        Raises:
            KeyError: the name is not in `quantized_formats`.
            SpeccError: SPC206 the file changed, SPC223 not finite, SPC224 it is not what the configuration says.
        """
        _ = self.quantized_formats[name]
        return self.quantized_from_header(self.headers[name])

    def tokenizer(self) -> Tokenizer | None:
        """Return the tokenizer, built when it is first asked for, or None when the checkpoint has none."""
        return None if self.tokenizer_from_files is None else self.tokenizer_from_files()

    def with_files(self, extra: tuple[Path, ...]) -> OpenedCheckpoint:
        """Return the checkpoint with more files behind its own, as a chat template of the recipe's."""
        return dataclasses.replace(self, files=files_once([*self.files, *extra]))


def files_once(files: list[Path]) -> tuple[Path, ...]:
    """Return the files in their order, each once."""
    return tuple(dict.fromkeys(files))
