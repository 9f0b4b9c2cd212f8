"""The CUDA device over a stand-in for `cuda.bindings.runtime`: its calls, their arity and their result tuples."""

from __future__ import annotations

import ctypes
from enum import IntEnum
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from specc.errors import SpeccError
from specc.runtime.runners.tensorrt_cuda import CudaDevice

MEMORY = 1 << 20


class Status(IntEnum):
    cudaSuccess = 0
    cudaErrorMemoryAllocation = 2


class StandIn:
    """Device memory is host memory; copies happen at once; every handle that is made must be given back."""

    cudaError_t = Status
    cudaMemcpyKind = SimpleNamespace(cudaMemcpyHostToDevice=1, cudaMemcpyDeviceToHost=2, cudaMemcpyDeviceToDevice=3)
    cudaDeviceAttr = SimpleNamespace(cudaDevAttrComputeCapabilityMajor=75, cudaDevAttrComputeCapabilityMinor=76)
    cudaStreamCaptureMode = SimpleNamespace(cudaStreamCaptureModeThreadLocal=1)
    cudaStreamNonBlocking = 1
    cudaHostAllocDefault = 0

    def __init__(self) -> None:
        self.live: dict[int, Any] = {}
        self.copies: list[int] = []
        self.capturing = False
        self.synchronized = False
        self._next = 1

    def _made(self, thing: Any) -> tuple[Status, int]:
        self._next += 1
        self.live[self._next] = thing
        return Status.cudaSuccess, self._next

    def _gone(self, handle: int) -> tuple[Status]:
        del self.live[handle]
        return (Status.cudaSuccess,)

    def _buffer(self, size: int) -> tuple[Status, int | None]:
        if size > MEMORY:
            return Status.cudaErrorMemoryAllocation, None
        buffer = (ctypes.c_uint8 * size)(*[0xCD] * size)
        self.live[ctypes.addressof(buffer)] = buffer
        return Status.cudaSuccess, ctypes.addressof(buffer)

    def cudaGetDevice(self) -> tuple[Status, int]:
        return Status.cudaSuccess, 0

    def cudaDeviceGetAttribute(self, attr: int, device: int) -> tuple[Status, int]:
        return Status.cudaSuccess, {75: 8, 76: 9}[attr]

    def cudaGetDeviceProperties(self, device: int) -> tuple[Status, Any]:
        return Status.cudaSuccess, SimpleNamespace(name=b"A Card\0\0")

    def cudaStreamCreateWithFlags(self, flags: int) -> tuple[Status, int]:
        assert flags == self.cudaStreamNonBlocking
        return self._made("stream")

    def cudaMalloc(self, size: int) -> tuple[Status, int | None]:
        return self._buffer(size)

    def cudaHostAlloc(self, size: int, flags: int) -> tuple[Status, int | None]:
        return self._buffer(size)

    def cudaMemset(self, pointer: int, value: int, count: int) -> tuple[Status]:
        ctypes.memset(pointer, value, count)
        return (Status.cudaSuccess,)

    def cudaDeviceSynchronize(self) -> tuple[Status]:
        self.synchronized = True
        return (Status.cudaSuccess,)

    def cudaMemcpyAsync(self, target: int, source: int, count: int, kind: int, stream: int) -> tuple[Status]:
        assert self.live[stream] == "stream"
        self.copies.append(kind)
        ctypes.memmove(target, source, count)
        return (Status.cudaSuccess,)

    def cudaStreamSynchronize(self, stream: int) -> tuple[Status]:
        assert self.live[stream] == "stream"
        return (Status.cudaSuccess,)

    def cudaStreamBeginCapture(self, stream: int, mode: int) -> tuple[Status]:
        self.capturing = True
        return (Status.cudaSuccess,)

    def cudaStreamEndCapture(self, stream: int) -> tuple[Status, int]:
        self.capturing = False
        return self._made("graph")

    def cudaGraphInstantiate(self, graph: int, flags: int) -> tuple[Status, int]:
        assert self.live[graph] == "graph"
        return self._made("executable")

    def cudaGraphLaunch(self, executable: int, stream: int) -> tuple[Status]:
        assert self.live[executable] == "executable"
        return (Status.cudaSuccess,)

    cudaFree = cudaFreeHost = cudaStreamDestroy = cudaGraphDestroy = cudaGraphExecDestroy = _gone


def test_memory_travels_and_everything_is_given_back() -> None:
    cuda = StandIn()
    device = CudaDevice(cuda)
    assert (device.compute_capability, device.title) == ("8.9", "A Card")
    stream, first, second = device.stream(), device.allocate(64), device.allocate(64)
    assert cuda.synchronized
    host = device.staging(64)
    device.download(host, first, stream)
    assert not host.any()
    host[:] = np.arange(64)
    device.upload(first, host, stream)
    device.copy(second, first, 32, stream)
    host[:] = 0
    device.download(host, second, stream)
    device.synchronize(stream)
    assert host.tolist() == [*range(32), *[0] * 32]
    assert cuda.copies == [2, 1, 3, 2]
    seen: list[bool] = []
    graph = device.capture(stream, lambda: seen.append(cuda.capturing))
    device.launch(graph, stream)
    device.release(graph)
    assert seen == [True]
    device.free(first)
    device.free(second)
    device.close()
    assert cuda.live == {}


def test_a_capture_ends_when_its_work_fails() -> None:
    cuda = StandIn()
    device = CudaDevice(cuda)
    stream = device.stream()

    def fail() -> None:
        raise SpeccError("SPC529", "TensorRT-RTX", "no", "no", "no")

    with pytest.raises(SpeccError):
        device.capture(stream, fail)
    assert not cuda.capturing


def test_spc529_names_the_card_and_the_wish() -> None:
    """Its whole text is tested in tests/errors/test_tensorrt_errors.py."""
    with pytest.raises(SpeccError) as caught:
        CudaDevice(StandIn()).allocate(MEMORY + 1)
    assert caught.value.place == "A Card"
    wish = f"{MEMORY + 1} bytes of device memory"
    assert caught.value.got == f"CUDA answers cudaErrorMemoryAllocation to a request for {wish}"
