"""Operators of the plugin on device memory: buffers with guards behind them, and launches as TensorRT makes them."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self, TypeAlias

import ml_dtypes
import numpy as np

from gpu_checks.driver import Argument, CudaDriver
from specc.plugin.bundle import Kernel, KernelBundle
from specc.plugin.operators import OPERATORS, TENSORS, ElementDtype, LogitsDtype, OperatorRow
from specc.plugin.targets import KernelTarget
from specc.plugin.variants import variant_of

Array: TypeAlias = np.ndarray[Any, Any]
# The image that the driver loads, from a kernel's text and its GPU.
ImageFromText: TypeAlias = Callable[[str, KernelTarget], bytes]

NUMPY: Final[dict[ElementDtype, np.dtype[Any]]] = {
    "f32": np.dtype(np.float32),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "i64": np.dtype(np.int64),
    "i32": np.dtype(np.int32),
}
# Behind every buffer, to see what writes too far; and the rubbish that outputs begin with.
_GUARD_BYTES: Final = 4096
_RUBBISH: Final = 0xA5
_HEAD_ROWS: Final = 16


def text_image(ptx: str, _: KernelTarget) -> bytes:
    """Return PTX as the driver takes it."""
    return ptx.encode() + b"\0"


@dataclass(frozen=True)
class Buffer:
    """A tensor on the device."""

    address: int
    dtype: ElementDtype
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of the tensor."""
        return math.prod(self.shape) * NUMPY[self.dtype].itemsize


class Buffers:
    """Tensors by name; use it as a context that frees them."""

    def __init__(self, driver: CudaDriver) -> None:
        self.driver = driver
        self.named: dict[str, Buffer] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for buffer in self.named.values():
            self.driver.free(buffer.address)

    def make(self, name: str, dtype: ElementDtype, shape: tuple[int, ...]) -> Buffer:
        """Return a new tensor full of rubbish; one of the same name and shape is taken again."""
        buffer = self.named.get(name)
        if buffer is None or (buffer.dtype, buffer.shape) != (dtype, shape):
            if buffer is not None:
                self.driver.free(buffer.address)
            fresh = Buffer(0, dtype, shape)
            buffer = Buffer(self.driver.allocate(fresh.nbytes + _GUARD_BYTES), dtype, shape)
            self.named[name] = buffer
        self.driver.fill(buffer.address, _RUBBISH, buffer.nbytes + _GUARD_BYTES)
        return buffer

    def put(self, name: str, array: Array, dtype: ElementDtype) -> Buffer:
        """Return a tensor with the array's content."""
        buffer = self.make(name, dtype, array.shape)
        self.driver.upload(buffer.address, array.astype(NUMPY[dtype]))
        return buffer

    def get(self, name: str) -> Array:
        """Return a tensor's content."""
        buffer = self.named[name]
        return self.driver.download(buffer.address, buffer.nbytes).view(NUMPY[buffer.dtype]).reshape(buffer.shape)

    def overwritten(self) -> list[str]:
        """Return the names of tensors that something wrote behind."""
        return [
            name
            for name, buffer in self.named.items()
            if (self.driver.download(buffer.address + buffer.nbytes, _GUARD_BYTES) != _RUBBISH).any()
        ]


@dataclass(frozen=True)
class Launch:
    """A kernel with its grid and arguments, ready to be put on the stream as often as wanted."""

    driver: CudaDriver
    operator: str
    function: ctypes.c_void_p
    grid: tuple[int, int, int]
    threads: int
    shared_bytes: int
    arguments: tuple[Argument, ...]
    nbytes: int

    def __call__(self) -> None:
        """Put it on the stream."""
        self.driver.launch(self.function, self.grid, self.threads, self.shared_bytes, self.arguments)


class Loader:
    """Kernels of a bundle, loaded by the driver when they are first asked for.

    Args:
        driver: of the card.
        bundle: of kernels.
        image: what the driver loads of a kernel.
    """

    def __init__(self, driver: CudaDriver, bundle: KernelBundle, image: ImageFromText = text_image) -> None:
        self.driver, self._bundle, self._image = driver, bundle, image
        self._loaded: dict[str, tuple[Kernel, ctypes.c_void_p]] = {}

    def kernel(self, operator: str, dtype: LogitsDtype, row_length: int) -> tuple[Kernel, ctypes.c_void_p]:
        """Return a kernel and the driver's handle of it."""
        variant = variant_of(operator, dtype, row_length)
        if variant.name not in self._loaded:
            kernel = self._bundle.kernel(variant)
            module = self.driver.module(self._image(kernel.ptx, self._bundle.target))
            self._loaded[variant.name] = kernel, self.driver.function(module, kernel.spec.entry)
        return self._loaded[variant.name]

    def launches(
        self, operators: Iterable[str], buffers: Buffers, dtype: LogitsDtype, vocab_size: int, candidates: int = 0
    ) -> list[Launch]:
        """Return the launches of operators in order; each one's outputs are made beside its inputs."""
        return [self._launch(OPERATORS[name], buffers, dtype, vocab_size, candidates) for name in operators]

    def _launch(
        self, row: OperatorRow, buffers: Buffers, dtype: LogitsDtype, vocab_size: int, candidates: int
    ) -> Launch:
        sizes = sizes_of_call(row, {name: buffers.named[name].shape for name in row.inputs}, vocab_size, candidates)
        for name in row.outputs:
            shape = tuple(size if isinstance(size, int) else sizes[size] for size in row.shape_of(name))
            output = TENSORS[name].dtype
            assert output is not None
            buffers.make(name, output, shape)
        kernel, function = self.kernel(row.name, dtype, sizes.get("H", sizes.get("W", 0)))
        pointers = [ctypes.c_uint64(buffers.named[name].address) for name in (*row.inputs, *row.outputs)]
        scalars = [ctypes.c_int32(sizes[letter]) for letter in row.scalars]
        arguments = (*pointers[: len(row.inputs)], *scalars, *pointers[len(row.inputs) :])
        grid = tuple(sizes[letter] for letter in row.grid) + (1,) * (3 - len(row.grid))
        assert len(grid) == 3
        threads = 32 * kernel.spec.num_warps
        nbytes = touched_bytes(row, buffers.named, sizes)
        return Launch(self.driver, row.name, function, grid, threads, kernel.spec.shared_bytes, arguments, nbytes)


def sizes_of_call(
    row: OperatorRow, shapes: Mapping[str, tuple[int, ...]], vocab_size: int, candidates: int
) -> dict[str, int]:
    """Return every size of an operator's call by its letter, as the registration tells them to TensorRT."""
    sizes = {"K": candidates, "V": vocab_size}
    for name in row.inputs:
        for letter, size in zip(row.shape_of(name), shapes[name], strict=True):
            if isinstance(letter, str) and sizes.setdefault(letter, size) != size:
                raise ValueError(f"{row.name}: {name} {shapes[name]} contradicts {letter} = {sizes[letter]}")
    if row.tile:
        sizes.setdefault("NT", -(-vocab_size // row.tile))
    sizes["ROWS"] = sizes["B"] * sizes.get("R", 1)
    sizes["ROW_BLOCKS"] = -(-sizes["ROWS"] // _HEAD_ROWS)
    return sizes


def touched_bytes(row: OperatorRow, buffers: Mapping[str, Buffer], sizes: Mapping[str, int]) -> int:
    """Return the bytes that an operator must read and write once; the second pass reads one row of each sequence."""
    nbytes = 0
    for name in (*row.inputs, *row.outputs):
        if name == "scratch":  # written only where rows truncate, and no result
            continue
        part = buffers[name].nbytes
        nbytes += part // sizes["R"] if name == "logits" and row.kernel == "residual_partials" else part
    return nbytes
