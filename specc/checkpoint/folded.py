"""A checkpoint whose tensors gain factors of rows and columns that cancel out: the same model before rounding."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from specc.catalog.weight_formats import WeightFormat
from specc.checkpoint.facts import ModelFacts, TokenFacts
from specc.checkpoint.source import Float32Array, SourceCheckpoint, TensorHeader
from specc.checkpoint.vocabulary import Vocabulary
from specc.quantize.quantized import QuantizedWeight

if TYPE_CHECKING:
    from tokenizers import Tokenizer


@dataclass(frozen=True, eq=False)
class TensorFactors:
    """What a tensor is multiplied by.

    Attributes:
        rows: float32 [N], of a matrix's rows, of a bias or of a norm's elements; None: 1.
        columns: float32 [K], of a matrix's columns; None: 1.
        unit_offset: the tensor is a norm that multiplies by 1 + w: the factor holds for that sum.
    """

    rows: Float32Array | None = None
    columns: Float32Array | None = None
    unit_offset: bool = False

    def applied(self, tensor: Float32Array) -> Float32Array:
        """Return the tensor times its factors, float32."""
        result = tensor + np.float32(1) if self.unit_offset else tensor
        if self.columns is not None:
            result = result * self.columns
        if self.rows is not None:
            result = result * (self.rows if tensor.ndim == 1 else self.rows[:, np.newaxis])
        return result - np.float32(1) if self.unit_offset else result


class FoldedCheckpoint:
    """A `SourceCheckpoint` over another; tensors with factors are read as floats, and no longer lie in a file as such.

    Args:
        source: the checkpoint.
        factors: of tensors by canonical name.
    """

    def __init__(self, source: SourceCheckpoint, factors: Mapping[str, TensorFactors]) -> None:
        self._source = source
        self._factors = factors
        self.uri: str = source.uri
        self.revision: str | None = source.revision
        self.facts: ModelFacts = source.facts
        self.tokens: TokenFacts = source.tokens
        self.files: tuple[Path, ...] = source.files
        self.vocabulary: Vocabulary | None = source.vocabulary
        self.quantization_notes: tuple[str, ...] = source.quantization_notes
        self.cache_scales: Mapping[str, TensorHeader] = source.cache_scales
        self.headers: dict[str, TensorHeader] = {
            name: dataclasses.replace(header, plain=False) if name in factors else header
            for name, header in source.headers.items()
        }
        self.quantized_formats: Mapping[str, WeightFormat] = {
            name: form for name, form in source.quantized_formats.items() if name not in factors
        }

    def read_float32(self, name: str) -> Float32Array:
        """Return one tensor times its factors; errors as of the source."""
        tensor = self._source.read_float32(name)
        return self._factors[name].applied(tensor) if name in self._factors else tensor

    def read_quantized(self, name: str) -> QuantizedWeight:
        """Return one quantized matrix that has no factors; errors as of the source."""
        _ = self.quantized_formats[name]
        return self._source.read_quantized(name)

    def tokenizer(self) -> Tokenizer | None:
        """Return the tokenizer, or None when the checkpoint has none."""
        tokenizer: Tokenizer | None = self._source.tokenizer()
        return tokenizer
