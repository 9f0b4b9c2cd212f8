"""The weights, shard by shard: a shard in which nothing changes is the source's own file, the others are written anew.

Memory holds one matrix at a time, with its codes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

import numpy as np

from specc.backends.modelopt.algorithms import Algorithm, forms_of_layer, layer_from_quantized
from specc.backends.modelopt.values import Values
from specc.checkpoint.safetensors_header import headers_from_safetensors
from specc.checkpoint.source import TensorHeader
from specc.errors import SpeccBug
from specc.graph.builder import WeightDtype
from specc.lower.safetensors_file import FileTensor, write_safetensors
from specc.progress import Progress

INDEX_FILE: Final = "model.safetensors.index.json"
LOOKED_UP: Final = "*embed_tokens"
"""Tables of rows, no linear layers: they stay as they are, and no list names them, as in ModelOpt's own checkpoints."""
EXCLUDED: Final = ("lm_head", "*.mlp.gate", "*.shared_expert_gate", "*.router", LOOKED_UP)
"""Modules that stay as they are: TensorRT-LLM quantizes neither heads nor routers."""
LAYER: Final = ".layers."
CACHED: Final = {".k_proj": "k_scale", ".v_proj": "v_scale"}
"""By the end of a module's name, the scale of the cache that its outputs go into."""


@dataclass(frozen=True)
class Weights:
    """Which tensors weights become.

    Attributes:
        algorithm: of every linear layer but the excluded.
        cache_scales: beside the layers that make keys and values stand the scales of their caches.
        folded: factors of channels may change any tensor of a layer.
    """

    algorithm: Algorithm
    cache_scales: bool
    folded: bool


def excluded_modules(shards: tuple[Path, ...]) -> tuple[str, ...]:
    """Return the linear layers that stay as they are, in order: `exclude_modules` names each."""
    found = [header for shard in shards for header in headers_from_safetensors(shard).values()]
    plain = (_module(header.name) for header in found if _is_matrix(header) and not _is_quantized(header))
    return tuple(sorted(module for module in plain if not fnmatchcase(module, LOOKED_UP)))


def shards_of(files: Iterable[Path]) -> tuple[Path, ...]:
    """Return those files of a source that hold weights."""
    return tuple(file for file in files if file.suffix == ".safetensors")


def is_changed(weights: Weights, shard: Path) -> bool:
    """Return whether a shard holds a tensor that becomes another; otherwise it is placed as it is."""
    headers = headers_from_safetensors(shard).values()
    return any(_is_quantized(header) or (weights.folded and LAYER in header.name) for header in headers)


def shard_bytes(weights: Weights, shard: Path) -> int:
    """Return what a shard's tensors take in the checkpoint."""
    return sum(tensor.nbytes for tensor in _shard_tensors(weights, shard))


def write_shard(weights: Weights, values: Values, shard: Path, path: Path, progress: Progress) -> None:
    """Write one shard.

    Args:
        weights: which tensors it becomes.
        values: what they hold.
        shard: the source's file, of plain tensors.
        path: of the new file.
        progress: of the bytes written.

    Raises:
        SpeccBug: a tensor is no plain one; planning refuses that by name.
    """
    write_safetensors(path, _shard_tensors(weights, shard, values), progress)


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


def _shard_tensors(weights: Weights, shard: Path, values: Values | None = None) -> list[FileTensor]:
    headers = headers_from_safetensors(shard).values()
    return [tensor for header in headers for tensor in _tensors(weights, header, values)]


def _tensors(weights: Weights, header: TensorHeader, values: Values | None) -> list[FileTensor]:
    if header.encoding not in ("f32", "f16", "bf16"):
        raise SpeccBug(f"{header.file} {header.name} is {header.encoding}, not plain")
    dtype: WeightDtype = header.encoding  # type: ignore[assignment]
    if not _is_quantized(header):
        return [FileTensor(header.name, dtype, header.shape, lambda: _known(values).plain(header))]
    module = _module(header.name)
    algorithm = weights.algorithm

    def parts() -> dict[str, bytes]:
        known = _known(values)
        return layer_from_quantized(algorithm, known.quantized(header), dtype, known.input_scale(header))

    layer = _Layer(parts)
    forms = forms_of_layer(algorithm, (header.shape[0], header.shape[1]), dtype)
    tensors = [
        FileTensor(f"{module}.{part}", form.dtype, form.shape, layer.content(part)) for part, form in forms.items()
    ]
    part = next((part for end, part in CACHED.items() if module.endswith(end)), None)
    if weights.cache_scales and part is not None:

        def scale() -> bytes:
            return np.float32(_known(values).cache_scale(header)).tobytes()

        tensors.append(FileTensor(f"{module}.{part}", "f32", (), scale))
    return tensors


def _known(values: Values | None) -> Values:
    if values is None:
        raise SpeccBug("a tensor is read of which only the form is known")
    return values


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


def _is_matrix(header: TensorHeader) -> bool:
    return header.name.endswith(".weight") and len(header.shape) == 2


def _is_quantized(header: TensorHeader) -> bool:
    module = _module(header.name)
    return _is_matrix(header) and not any(fnmatchcase(module, pattern) for pattern in EXCLUDED)


def _module(name: str) -> str:
    return name.removesuffix(".weight")
