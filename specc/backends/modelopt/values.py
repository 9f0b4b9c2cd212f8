"""What the tensors of a quantized checkpoint hold: codes of one matrix at a time, and what calibration showed."""

from __future__ import annotations

from typing import Any, Final, Protocol

import ml_dtypes
import numpy as np

from specc.backends.backend import Calibrated
from specc.backends.modelopt.algorithms import Algorithm
from specc.catalog.weight_formats import CALIBRATED_METHODS, QuantizationMethod
from specc.checkpoint.source import SourceCheckpoint, TensorHeader
from specc.errors import SpeccBug
from specc.graph.tapped import cache_name
from specc.quantize.quantized import QuantizedWeight
from specc.quantize.quantized_from_float import quantized_from_float
from specc.quantize.scale_search import RoundingMethod

FUSED: Final = (("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"))
"""Layers over one input that loaders make one product of, which has one scale where the algorithm has one a matrix."""
REACH: Final = {"fp8_e4m3": 448.0, "fp4_e2m1": 6.0 * 448.0}
"""What the largest input of a layer becomes, of 4 bits with the scale of its block."""
LEAST_CACHE_SCALE: Final = 1.0
"""Of fp8 caches, as NVIDIA's exporter for TensorRT-LLM has it: a float keeps its digits where its range is not used up,
and a text of another kind may have larger keys than those of calibration."""
PLAIN_DTYPES: Final[dict[str, np.dtype[Any]]] = {
    "f32": np.dtype(np.float32),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
}


class Values(Protocol):
    """The content of tensors, by the header of the source's own tensor."""

    def quantized(self, header: TensorHeader) -> QuantizedWeight:
        """Return a matrix in the algorithm's format."""

    def input_scale(self, header: TensorHeader) -> float | None:
        """Return the scale of a layer's inputs; None where the algorithm has none."""

    def cache_scale(self, header: TensorHeader) -> float:
        """Return the scale of the cache that a layer's outputs go into."""

    def plain(self, header: TensorHeader) -> bytes:
        """Return the bytes of a tensor that is not quantized, in its own dtype."""


class SourceValues:
    """Values made of a source.

    Args:
        algorithm: of every linear layer.
        method: how codes are chosen.
        source: the checkpoint, of plain tensors.
        calibrated: what texts showed of it; None where neither algorithm nor method asks.
    """

    def __init__(
        self, algorithm: Algorithm, method: QuantizationMethod, source: SourceCheckpoint, calibrated: Calibrated | None
    ) -> None:
        self._algorithm = algorithm
        self._method = method
        self._original = source
        self._source = source if calibrated is None else calibrated.source
        self._calibrated = calibrated
        self._names = {(header.file, header.offset): name for name, header in source.headers.items()}
        self._largest: dict[str, float] = {}

    def quantized(self, header: TensorHeader) -> QuantizedWeight:
        """Return a matrix in the algorithm's format; errors as of reading it."""
        name, form = self._name(header), self._algorithm.format
        if self._method in CALIBRATED_METHODS:
            return self._found().quantized(name, form)
        weight = self._source.read_float32(name)
        method: RoundingMethod = "rtn" if self._method == "rtn" else "mse"
        shared = self._shared_largest(name) if form.granularity == "tensor" or form.two_level else None
        return quantized_from_float(weight, form, method, largest=shared)

    def input_scale(self, header: TensorHeader) -> float | None:
        """Return the largest input over what it becomes."""
        if not self._algorithm.static_inputs:
            return None
        return self._found().largest(self._name(header)) / REACH[self._algorithm.format.element]

    def cache_scale(self, header: TensorHeader) -> float:
        """Return the scale of the keys, or the values, that a layer makes."""
        return max(LEAST_CACHE_SCALE, self._found().largest(cache_name(self._name(header))) / REACH["fp8_e4m3"])

    def plain(self, header: TensorHeader) -> bytes:
        """Return the source's own bytes, or what factors of channels made of them, rounded to their dtype."""
        name = self._name(header)
        if self._source.headers[name] == self._original.headers[name]:
            with header.file.open("rb") as file:
                file.seek(header.offset)
                return file.read(header.nbytes)
        return self._source.read_float32(name).astype(PLAIN_DTYPES[header.encoding]).tobytes()

    def _name(self, header: TensorHeader) -> str:
        return self._names[header.file, header.offset]

    def _found(self) -> Calibrated:
        if self._calibrated is None:
            raise SpeccBug(f"{self._algorithm.name} by {self._method} was not calibrated")
        return self._calibrated

    def _shared_largest(self, name: str) -> float:
        """Return the largest magnitude of the matrices that one scale holds for."""
        for member in fused_with(name):
            if member not in self._largest:
                weight = self._source.read_float32(member)
                self._largest[member] = float(max(weight.max(), -weight.min()))
        return max(self._largest[member] for member in fused_with(name))


def fused_with(name: str) -> tuple[str, ...]:
    """Return the canonical names of the matrices that are fused with a layer's, itself among them."""
    for group in FUSED:
        for member in group:
            if name.endswith(f".{member}.weight"):
                stem = name.removesuffix(f"{member}.weight")
                return tuple(f"{stem}{other}.weight" for other in group)
    return (name,)
