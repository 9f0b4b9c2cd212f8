"""The current CUDA device, through the bindings of cuda-python."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from specc.errors import SpeccError
from specc.runtime.runners.tensorrt_library import Bytes, Rows

# The module cuda.bindings.runtime; it ships without type hints.
Cuda: TypeAlias = Any


class CudaDevice:
    """The device that is current when the object is made. Use `cuda_device` to make one."""

    def __init__(self, cuda: Cuda) -> None:
        self._cuda = cuda
        self._title = "CUDA"
        index = self._checked(cuda.cudaGetDevice())
        attributes = cuda.cudaDeviceAttr
        major = self._checked(cuda.cudaDeviceGetAttribute(attributes.cudaDevAttrComputeCapabilityMajor, index))
        minor = self._checked(cuda.cudaDeviceGetAttribute(attributes.cudaDevAttrComputeCapabilityMinor, index))
        self._compute_capability = f"{major}.{minor}"
        name = self._checked(cuda.cudaGetDeviceProperties(index)).name
        self._title = name.decode().rstrip("\0") if isinstance(name, bytes) else str(name)
        self._streams: list[int] = []
        self._staging: list[int] = []

    @property
    def compute_capability(self) -> str:
        """SM as `8.9`."""
        return self._compute_capability

    @property
    def title(self) -> str:
        """The maker's name of the device."""
        return self._title

    def stream(self) -> int:
        """Return a new stream that does not wait for the default one."""
        stream = int(self._checked(self._cuda.cudaStreamCreateWithFlags(self._cuda.cudaStreamNonBlocking)))
        self._streams.append(stream)
        return stream

    def allocate(self, nbytes: int) -> int:
        """Return the address of new device memory, filled with zeros."""
        address = int(self._checked(self._cuda.cudaMalloc(nbytes), f"{nbytes} bytes of device memory"))
        self._checked(self._cuda.cudaMemset(address, 0, nbytes))
        # The fill runs on the default stream, which ours does not wait for.
        self._checked(self._cuda.cudaDeviceSynchronize())
        return address

    def free(self, address: int) -> None:
        """Give device memory back."""
        self._checked(self._cuda.cudaFree(address))

    def staging(self, nbytes: int) -> Bytes:
        """Return page-locked host memory."""
        address = int(self._checked(self._cuda.cudaHostAlloc(nbytes, self._cuda.cudaHostAllocDefault)))
        self._staging.append(address)
        return np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(address))

    def upload(self, address: int, host: Bytes, stream: int) -> None:
        """Copy host bytes to the device."""
        kind = self._cuda.cudaMemcpyKind.cudaMemcpyHostToDevice
        self._checked(self._cuda.cudaMemcpyAsync(address, host.ctypes.data, host.nbytes, kind, stream))

    def download(self, host: Bytes, address: int, stream: int) -> None:
        """Copy device bytes to the host."""
        kind = self._cuda.cudaMemcpyKind.cudaMemcpyDeviceToHost
        self._checked(self._cuda.cudaMemcpyAsync(host.ctypes.data, address, host.nbytes, kind, stream))

    def copy(self, target: int, source: int, nbytes: int, stream: int) -> None:
        """Copy between device addresses."""
        kind = self._cuda.cudaMemcpyKind.cudaMemcpyDeviceToDevice
        self._checked(self._cuda.cudaMemcpyAsync(target, source, nbytes, kind, stream))

    def copy_rows(self, target: Rows, source: Rows, width: int, count: int, stream: int) -> None:
        """Copy rows between device addresses."""
        kind = self._cuda.cudaMemcpyKind.cudaMemcpyDeviceToDevice
        places = target.address, target.pitch, source.address, source.pitch
        self._checked(self._cuda.cudaMemcpy2DAsync(*places, width, count, kind, stream))

    def synchronize(self, stream: int) -> None:
        """Wait until the stream is empty."""
        self._checked(self._cuda.cudaStreamSynchronize(stream))

    def capture(self, stream: int, work: Callable[[], None]) -> Any:  # noqa: ANN401 - a handle of the vendor
        """Return the executable CUDA graph of what `work` puts on the stream."""
        mode = self._cuda.cudaStreamCaptureMode.cudaStreamCaptureModeThreadLocal
        self._checked(self._cuda.cudaStreamBeginCapture(stream, mode))
        try:
            work()
        finally:
            graph = self._checked(self._cuda.cudaStreamEndCapture(stream))
        executable = self._checked(self._cuda.cudaGraphInstantiate(graph, 0))
        self._checked(self._cuda.cudaGraphDestroy(graph))
        return executable

    def launch(self, graph: Any, stream: int) -> None:  # noqa: ANN401
        """Put a captured graph on the stream."""
        self._checked(self._cuda.cudaGraphLaunch(graph, stream))

    def release(self, graph: Any) -> None:  # noqa: ANN401
        """Free a captured graph."""
        self._checked(self._cuda.cudaGraphExecDestroy(graph))

    def close(self) -> None:
        """Give back the streams and the staging memory."""
        for stream in self._streams:
            self._checked(self._cuda.cudaStreamDestroy(stream))
        for address in self._staging:
            self._checked(self._cuda.cudaFreeHost(address))
        self._streams.clear()
        self._staging.clear()

    def _checked(self, returned: Any, wanted: str = "") -> Any:  # noqa: ANN401 - what a CUDA call returns
        """Return the value of a CUDA call, which follows its status.

        Raises:
            SpeccError: SPC529 the status is an error.
        """
        status, *values = returned
        if status != self._cuda.cudaError_t.cudaSuccess:
            raise SpeccError(
                "SPC529",
                self._title,
                f"CUDA answers {status.name}" + (f" to a request for {wanted}" if wanted else ""),
                "the engine, the caches of all slots and the activations of the largest call must fit on the device",
                "end other programs on the GPU, or build with a smaller limits.max_batch or limits.max_output",
            )
        return values[0] if values else None


def cuda_device() -> CudaDevice:
    """Return the current device.

    Raises:
        SpeccError: SPC527 cuda-python is not installed, or the driver finds no GPU.
    """
    try:
        from cuda.bindings import runtime as cuda
    except ImportError as error:
        raise _no_device("the package `cuda-python` is not installed") from error
    status, count = cuda.cudaGetDeviceCount()
    if status != cuda.cudaError_t.cudaSuccess or not count:
        raise _no_device(f"CUDA answers {status.name} when asked for devices")
    return CudaDevice(cuda)


def _no_device(got: str) -> SpeccError:
    return SpeccError(
        "SPC527",
        "CUDA",
        got,
        "a TensorRT engine runs on an NVIDIA GPU",
        "run the bundle on a machine with the GPU it was built for, its driver and `pip install cuda-python`; "
        "for CPUs, build with backend onnxruntime",
    )
