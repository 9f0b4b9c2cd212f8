"""The few calls of TensorRT and CUDA that the runner uses, as protocols.

`tensorrt_vendor.py` and `tensorrt_cuda.py` make them with the vendor's libraries; tests make them with ONNX Runtime
over NumPy memory, so that the runner's own logic runs on machines without a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

Bytes: TypeAlias = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Rows:
    """Where rows lie in device memory: the first byte of the first one, and the bytes from one to the next."""

    address: int
    pitch: int


class Device(Protocol):
    """One GPU and its memory. Addresses and streams are plain integers; work on a stream runs in order."""

    @property
    def compute_capability(self) -> str:
        """SM as `8.9`."""

    @property
    def title(self) -> str:
        """The maker's name of the device."""

    def stream(self) -> int:
        """Return a new stream."""

    def allocate(self, nbytes: int) -> int:
        """Return the address of new device memory, filled with zeros.

        Raises:
            SpeccError: SPC529 the device has not that much left.
        """

    def free(self, address: int) -> None:
        """Give device memory back."""

    def staging(self, nbytes: int) -> Bytes:
        """Return host memory that copies run fast from and to (page-locked); it lives as long as the device object."""

    def upload(self, address: int, host: Bytes, stream: int) -> None:
        """Copy host bytes to the device, in the order of the stream; `host` must not change until it is done."""

    def download(self, host: Bytes, address: int, stream: int) -> None:
        """Copy device bytes to the host, in the order of the stream."""

    def copy(self, target: int, source: int, nbytes: int, stream: int) -> None:
        """Copy between device addresses that do not overlap."""

    def copy_rows(self, target: Rows, source: Rows, width: int, count: int, stream: int) -> None:
        """Copy `count` rows of `width` bytes each between device addresses, in the order of the stream."""

    def synchronize(self, stream: int) -> None:
        """Wait until the stream is empty."""

    def capture(self, stream: int, work: Callable[[], None]) -> Any:  # noqa: ANN401 - a handle of the vendor
        """Return the CUDA graph of what `work` puts on the stream; nothing runs."""

    def launch(self, graph: Any, stream: int) -> None:  # noqa: ANN401
        """Put a captured graph on the stream."""

    def release(self, graph: Any) -> None:  # noqa: ANN401
        """Free a captured graph."""

    def close(self) -> None:
        """Give back the streams and the staging memory."""


class Context(Protocol):
    """The state of executions under one optimization profile."""

    @property
    def capturable(self) -> bool:
        """Whether an execution may be captured into a CUDA graph by the caller."""

    def set_input_shape(self, name: str, shape: tuple[int, ...]) -> None:
        """State the shape of an input for the executions that follow."""

    def set_address(self, name: str, address: int) -> None:
        """State where a tensor lies for the executions that follow."""

    def execute(self, stream: int) -> None:
        """Put one execution on the stream.

        Raises:
            SpeccError: SPC529 the library refused it.
        """


class Engine(Protocol):
    """A deserialized engine."""

    @property
    def tensor_names(self) -> tuple[str, ...]:
        """Every input and output."""

    @property
    def profile_count(self) -> int:
        """Optimization profiles it was built with."""

    @property
    def one_shape(self) -> bool:
        """Whether each shape of calls wants a context of its own."""

    @property
    def scratch_bytes(self) -> int:
        """Device memory that every context is to be given, the same for all; 0 where contexts have their own."""

    def context(self, profile: int, stream: int, scratch: int) -> Context:
        """Return a new context for one profile, whose executions run on `stream` and use the memory at `scratch`."""


class TensorRtLibrary(Protocol):
    """TensorRT or TensorRT-RTX."""

    @property
    def name(self) -> str:
        """As engines are called in the manifest: `tensorrt-rtx`."""

    @property
    def title(self) -> str:
        """As its maker calls it."""

    @property
    def version(self) -> str:
        """The library's version."""

    def device(self) -> Device:
        """Return the current device.

        Raises:
            SpeccError: SPC527 there is no usable GPU here.
        """

    def engine(self, file: Path) -> Engine:
        """Return the engine that a file holds.

        Raises:
            SpeccError: SPC528 the library cannot load it here.
        """
