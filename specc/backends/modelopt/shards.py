"""The weights, shard by shard: a shard in which nothing changes is the source's own file, the others are written anew.

Memory holds one matrix at a time, with its codes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from specc.backends.modelopt.algorithms import Algorithm, forms_of_layer, layer_from_quantized
from specc.checkpoint.plain_tensor import float32_from_plain
from specc.checkpoint.safetensors_header import headers_from_safetensors
from specc.checkpoint.source import TensorHeader
from specc.errors import SpeccBug
from specc.graph.builder import WeightDtype
from specc.lower.safetensors_file import FileTensor, write_safetensors
from specc.progress import Progress
from specc.quantize.quantized_from_float import quantized_from_float
from specc.quantize.scale_search import RoundingMethod

INDEX_FILE: Final = "model.safetensors.index.json"
EXCLUDED: Final = ("lm_head", "*embed_tokens", "*.mlp.gate", "*.shared_expert_gate", "*.router")
"""Modules that stay as they are: TensorRT-LLM quantizes neither heads nor routers."""


@dataclass(frozen=True)
class Weights:
    """How weights become a checkpoint.

    Attributes:
        algorithm: of every linear layer but the excluded.
        method: how codes are chosen.
        input_scales: of layers by the module's name; empty where the algorithm has none.
    """

    algorithm: Algorithm
    method: RoundingMethod
    input_scales: Mapping[str, float]


def excluded_modules(shards: tuple[Path, ...]) -> tuple[str, ...]:
    """Return the modules with a matrix that stays as it is, in order: `exclude_modules` names each."""
    found = [header for shard in shards for header in headers_from_safetensors(shard).values()]
    return tuple(sorted(_module(header.name) for header in found if _is_matrix(header) and not _is_quantized(header)))


def shards_of(files: Iterable[Path]) -> tuple[Path, ...]:
    """Return those files of a source that hold weights."""
    return tuple(file for file in files if file.suffix == ".safetensors")


def is_changed(shard: Path) -> bool:
    """Return whether a shard holds a matrix that is quantized; otherwise it is placed as it is."""
    return any(_is_quantized(header) for header in headers_from_safetensors(shard).values())


def shard_bytes(weights: Weights, shard: Path) -> int:
    """Return what a shard's tensors take in the checkpoint."""
    return sum(tensor.nbytes for tensor in _shard_tensors(weights, shard))


def write_shard(weights: Weights, shard: Path, path: Path, progress: Progress) -> None:
    """Write one shard.

    Args:
        weights: what to make of it.
        shard: the source's file, of plain tensors.
        path: of the new file.
        progress: of the bytes written.

    Raises:
        SpeccBug: a layer has no input scale, or a tensor is no plain one; planning refuses both by name.
    """
    write_safetensors(path, _shard_tensors(weights, shard), progress)


def write_index(weights: Weights, shards: tuple[Path, ...], folder: Path) -> None:
    """Write which shard holds which tensor, where there are several."""
    if len(shards) < 2:
        return
    tensors = [(tensor, shard.name) for shard in shards for tensor in _shard_tensors(weights, shard)]
    index = {
        "metadata": {"total_size": sum(tensor.nbytes for tensor, _ in tensors)},
        "weight_map": {tensor.name: name for tensor, name in tensors},
    }
    (folder / INDEX_FILE).write_text(json.dumps(index, indent=2) + "\n", encoding="utf-8")


def _shard_tensors(weights: Weights, shard: Path) -> list[FileTensor]:
    return [tensor for header in headers_from_safetensors(shard).values() for tensor in _tensors(weights, header)]


def _tensors(weights: Weights, header: TensorHeader) -> list[FileTensor]:
    if header.encoding not in ("f32", "f16", "bf16"):
        raise SpeccBug(f"{header.file} {header.name} is {header.encoding}, not plain")
    dtype: WeightDtype = header.encoding  # type: ignore[assignment]
    if not _is_quantized(header):
        return [FileTensor(header.name, dtype, header.shape, lambda: _bytes(header))]
    module = _module(header.name)
    algorithm = weights.algorithm
    scale = weights.input_scales.get(module) if algorithm.static_inputs else None

    def parts() -> dict[str, bytes]:
        quantized = quantized_from_float(float32_from_plain(header), algorithm.format, weights.method)
        return layer_from_quantized(algorithm, quantized, dtype, scale)

    layer = _Layer(parts)
    forms = forms_of_layer(algorithm, (header.shape[0], header.shape[1]), dtype)
    return [FileTensor(f"{module}.{part}", form.dtype, form.shape, layer.content(part)) for part, form in forms.items()]


class _Layer:
    """The parts of one layer, made when the first is asked for and let go one by one."""

    def __init__(self, make: Callable[[], dict[str, bytes]]) -> None:
        self._make = make
        self._parts: dict[str, bytes] = {}
        self._made = False

    def content(self, part: str) -> Callable[[], bytes]:
        """Return what gives the bytes of one part, once."""

        def bytes_of_part() -> bytes:
            if not self._made:
                self._parts, self._made = self._make(), True
            return self._parts.pop(part)

        return bytes_of_part


def _bytes(header: TensorHeader) -> bytes:
    with header.file.open("rb") as file:
        file.seek(header.offset)
        return file.read(header.nbytes)


def _is_matrix(header: TensorHeader) -> bool:
    return header.name.endswith(".weight") and len(header.shape) == 2


def _is_quantized(header: TensorHeader) -> bool:
    module = _module(header.name)
    return _is_matrix(header) and not any(fnmatchcase(module, pattern) for pattern in EXCLUDED)


def _module(name: str) -> str:
    return name.removesuffix(".weight")
