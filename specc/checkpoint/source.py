"""The source checkpoint as the rest of the compiler sees it: one interface for safetensors folders and GGUF files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from specc.catalog.weight_formats import WeightFormat
from specc.checkpoint.facts import ModelFacts, TokenFacts
from specc.checkpoint.vocabulary import Vocabulary
from specc.quantize.quantized import QuantizedWeight

Float32Array: TypeAlias = npt.NDArray[np.float32]


@dataclass(frozen=True)
class TensorHeader:
    """Where a tensor lies and how it is stored; nothing of its content was read.

    Attributes:
        name: canonical Hugging Face name, as `model.layers.0.self_attn.q_proj.weight`.
        shape: logical shape, Linear weights as [out, in].
        encoding: `f32`, `f16`, `bf16` (plain row-major elements), a GGUF block type in lower case, as `q4_1`, or the
            element of a quantized matrix of a Hugging Face folder, as `uint4`.
        file: absolute path of the file that holds it.
        offset: first byte in the file.
        nbytes: bytes in the file.
        packed: where a quantized matrix of a Hugging Face folder lies; file, offset and nbytes are then of its codes.
        first_row: of a view into a stored tensor with `packed`, the first of its rows there.
        plain: the bytes are the canonical tensor itself (right order, no block encoding, no permutation), so external
            data may point at them.
    """

    name: str
    shape: tuple[int, ...]
    encoding: str
    file: Path
    offset: int
    nbytes: int
    plain: bool
    packed: PackedTensors | None = None
    first_row: int = 0


@dataclass(frozen=True)
class PackedTensors:
    """A quantized matrix as a Hugging Face folder stores it: several tensors of one linear layer.

    Attributes:
        layout: how codes are packed.
        shape: N and K of the stored matrix.
        format: what the matrix is; None where no format has a place for it: it can only be expanded.
        tensors: the stored tensors by the last part of their names, as `qweight` and `scales`.
    """

    layout: Literal["autoawq", "gptq", "gptq_v2", "pack-quantized", "nvfp4", "rows", "row pairs"]
    shape: tuple[int, int]
    format: WeightFormat | None
    tensors: Mapping[str, TensorHeader]


class SourceCheckpoint(Protocol):
    """An opened source checkpoint: headers are parsed, tensors are not read."""

    @property
    def uri(self) -> str:
        """The model reference as the recipe states it."""

    @property
    def revision(self) -> str | None:
        """The hub's commit that the files are of; None for local files and packages."""

    @property
    def facts(self) -> ModelFacts:
        """What the model is."""

    @property
    def tokens(self) -> TokenFacts:
        """Special tokens and generation defaults."""

    @property
    def headers(self) -> dict[str, TensorHeader]:
        """Every tensor by canonical name, in file order."""

    @property
    def files(self) -> tuple[Path, ...]:
        """Every file that the checkpoint consists of, in a stable order: what its digest is made of."""

    @property
    def quantized_formats(self) -> Mapping[str, WeightFormat]:
        """The matrices, by canonical name, that are stored quantized in a format of ours: `read_quantized` has them."""

    @property
    def cache_scales(self) -> Mapping[str, TensorHeader]:
        """The scales of 8-bit caches, one number each, by their stored names: they end in `k_scale` or `v_scale`."""

    @property
    def quantization_notes(self) -> tuple[str, ...]:
        """Sentences for people on what of a quantized checkpoint is expanded or left out, and why."""

    def read_quantized(self, name: str) -> QuantizedWeight:
        """Return one quantized matrix as it is stored: codes, scales and zero points, not rounded again.

        Raises:
            KeyError: the name is not in `quantized_formats` (a bug of the caller).
            SpeccError: the bytes are damaged.
        """

    def read_float32(self, name: str) -> Float32Array:
        """Return one tensor dequantized to float32, of the shape its header states.

        Raises:
            KeyError: no such tensor (a bug of the caller: headers tell).
            SpeccError: the bytes are damaged.
        """

    @property
    def vocabulary(self) -> Vocabulary | None:
        """The tokens of its tokenizer, which needs not be built for that; None when the checkpoint has none."""

    def tokenizer(self) -> Any | None:  # noqa: ANN401 - tokenizers.Tokenizer, imported where it is built
        """Return the `tokenizers.Tokenizer`, or None when the checkpoint has none.

        Raises:
            SpeccError: SPC240 the library refuses it.
        """
