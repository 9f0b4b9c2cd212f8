"""The CUDA driver through ctypes: no package is needed to launch a kernel with exactly the parameters that it is given.

It works in the device's primary context, which libraries of the CUDA runtime (torch, TensorRT) share.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

from gpu_checks.outcome import LackingError

# A ctypes library, or what stands for it in tests.
Library: TypeAlias = Any
# A scalar of ctypes.
Argument: TypeAlias = Any

# Of cuda.h: CUdevice_attribute, CUfunction_attribute and flags.
_MULTIPROCESSORS: Final = 16
_MEMORY_CLOCK_KHZ: Final = 36
_MEMORY_BUS_BITS: Final = 37
_L2_BYTES: Final = 38
_SM_MAJOR: Final = 75
_SM_MINOR: Final = 76
_SHARED_OPT_IN_BYTES: Final = 97
_MOST_DYNAMIC_SHARED: Final = 8
_NON_BLOCKING: Final = 1
_CAPTURE_THREAD_LOCAL: Final = 1


class DriverError(RuntimeError):
    """A call that the driver refused.

    Attributes:
        call: its name.
        answer: the driver's name of the error.
    """

    def __init__(self, call: str, answer: str) -> None:
        super().__init__(f"{call} answers {answer}")
        self.call, self.answer = call, answer


@dataclass(frozen=True)
class Card:
    """Facts of a card, as its driver states them.

    Attributes:
        name: the maker's.
        compute_capability: as `9.0`.
        driver: CUDA version of the driver, as `13.0`.
        multiprocessors: of the card.
        memory_bytes: of the card.
        shared_bytes: dynamic shared memory of a block that asks for more than 48 KB.
        l2_bytes: of the second-level cache.
        bandwidth: of the memory by its clock and its bus, bytes a second; 0 where the driver states no clock.
    """

    name: str
    compute_capability: str
    driver: str
    multiprocessors: int
    memory_bytes: int
    shared_bytes: int
    l2_bytes: int
    bandwidth: float


class CudaDriver:
    """Device 0, its memory, kernels, one stream, time, and graphs of the stream."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._call("cuInit", 0)
        count = ctypes.c_int()
        self._call("cuDeviceGetCount", ctypes.byref(count))
        if count.value < 1:
            raise LackingError("no GPU: the driver finds none")
        self._device = ctypes.c_int()
        self._call("cuDeviceGet", ctypes.byref(self._device), 0)
        context = ctypes.c_void_p()
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), self._device)
        self._call("cuCtxSetCurrent", context)
        self.stream: Final = self._created("cuStreamCreate", _NON_BLOCKING)

    def card(self) -> Card:
        """Return the card's facts."""
        name = ctypes.create_string_buffer(256)
        self._call("cuDeviceGetName", name, len(name), self._device)
        version = ctypes.c_int()
        self._call("cuDriverGetVersion", ctypes.byref(version))
        clock, bus = self._attribute(_MEMORY_CLOCK_KHZ), self._attribute(_MEMORY_BUS_BITS)
        return Card(
            name=name.value.decode(),
            compute_capability=f"{self._attribute(_SM_MAJOR)}.{self._attribute(_SM_MINOR)}",
            driver=f"{version.value // 1000}.{version.value % 1000 // 10}",
            multiprocessors=self._attribute(_MULTIPROCESSORS),
            memory_bytes=self.memory()[1],
            shared_bytes=self._attribute(_SHARED_OPT_IN_BYTES),
            l2_bytes=self._attribute(_L2_BYTES),
            bandwidth=2.0 * clock * 1000 * bus / 8,
        )

    def memory(self) -> tuple[int, int]:
        """Return free and total bytes of device memory."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self._call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value

    def allocate(self, nbytes: int) -> int:
        """Return the address of new device memory."""
        address = ctypes.c_uint64()
        self._call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(nbytes))
        return address.value

    def free(self, address: int) -> None:
        """Give device memory back, when the stream is empty."""
        self.synchronize()
        self._call("cuMemFree_v2", ctypes.c_uint64(address))

    def fill(self, address: int, byte: int, nbytes: int) -> None:
        """Fill device memory, in the order of the stream."""
        self._call("cuMemsetD8Async", ctypes.c_uint64(address), byte, ctypes.c_size_t(nbytes), self.stream)

    def upload(self, address: int, array: np.ndarray[Any, Any]) -> None:
        """Copy an array to the device and wait for it."""
        held = np.ascontiguousarray(array)
        source = ctypes.c_void_p(held.ctypes.data)
        self._call("cuMemcpyHtoDAsync_v2", ctypes.c_uint64(address), source, ctypes.c_size_t(held.nbytes), self.stream)
        self.synchronize()

    def download(self, address: int, nbytes: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """Return device bytes, after all that the stream holds."""
        array = np.empty(nbytes, dtype=np.uint8)
        target = ctypes.c_void_p(array.ctypes.data)
        self._call("cuMemcpyDtoHAsync_v2", target, ctypes.c_uint64(address), ctypes.c_size_t(nbytes), self.stream)
        self.synchronize()
        return array

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Copy between device addresses, in the order of the stream."""
        addresses = ctypes.c_uint64(target), ctypes.c_uint64(source)
        self._call("cuMemcpyDtoDAsync_v2", *addresses, ctypes.c_size_t(nbytes), self.stream)

    def module(self, image: bytes) -> ctypes.c_void_p:
        """Return a loaded module: PTX text, which the driver compiles, or an assembled kernel."""
        module = ctypes.c_void_p()
        self._call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(image))
        return module

    def unload(self, module: ctypes.c_void_p) -> None:
        """Give a module back."""
        self._call("cuModuleUnload", module)

    def function(self, module: ctypes.c_void_p, entry: str) -> ctypes.c_void_p:
        """Return a kernel of a module."""
        function = ctypes.c_void_p()
        self._call("cuModuleGetFunction", ctypes.byref(function), module, entry.encode())
        return function

    def parameter_sizes(self, function: ctypes.c_void_p) -> tuple[int, ...] | None:
        """Return the bytes of each parameter that the driver expects, None where it is too old to say (CUDA 12.4)."""
        try:
            self._library.cuFuncGetParamInfo  # noqa: B018 - ctypes looks it up now
        except AttributeError:
            return None
        sizes: list[int] = []
        offset, size = ctypes.c_size_t(), ctypes.c_size_t()
        answered = ctypes.byref(offset), ctypes.byref(size)
        # The driver answers an error for the place after the last.
        while self._library.cuFuncGetParamInfo(function, ctypes.c_size_t(len(sizes)), *answered) == 0:
            sizes.append(size.value)
        return tuple(sizes)

    def allow_shared(self, function: ctypes.c_void_p, nbytes: int) -> None:
        """Let a kernel have this much dynamic shared memory."""
        self._call("cuFuncSetAttribute", function, _MOST_DYNAMIC_SHARED, nbytes)

    def launch(
        self,
        function: ctypes.c_void_p,
        grid: tuple[int, int, int],
        threads: int,
        shared_bytes: int,
        arguments: Sequence[Argument],
    ) -> None:
        """Put a kernel on the stream with exactly these arguments."""
        places = (ctypes.c_void_p * len(arguments))(*(ctypes.addressof(argument) for argument in arguments))
        self._call("cuLaunchKernel", function, *grid, threads, 1, 1, shared_bytes, self.stream, places, None)

    def synchronize(self) -> None:
        """Wait until the stream is empty."""
        self._call("cuStreamSynchronize", self.stream)

    def seconds(self, work: Callable[[], None], before: Callable[[], None] = lambda: None) -> float:
        """Return the device's own time for what `work` puts on the stream, behind what `before` puts there."""
        start, end = self._created("cuEventCreate", 0), self._created("cuEventCreate", 0)
        before()
        self._call("cuEventRecord", start, self.stream)
        work()
        self._call("cuEventRecord", end, self.stream)
        self.synchronize()
        spent = ctypes.c_float()
        self._call("cuEventElapsedTime", ctypes.byref(spent), start, end)
        for event in (start, end):
            self._call("cuEventDestroy_v2", event)
        return spent.value / 1000

    def captured(self, work: Callable[[], None]) -> ctypes.c_void_p:
        """Return the executable graph of what `work` puts on the stream; nothing runs."""
        self._call("cuStreamBeginCapture_v2", self.stream, _CAPTURE_THREAD_LOCAL)
        graph = ctypes.c_void_p()
        try:
            work()
        finally:
            self._call("cuStreamEndCapture", self.stream, ctypes.byref(graph))
        executable = ctypes.c_void_p()
        self._call("cuGraphInstantiateWithFlags", ctypes.byref(executable), graph, ctypes.c_uint64(0))
        self._call("cuGraphDestroy", graph)
        return executable

    def replay(self, graph: ctypes.c_void_p) -> None:
        """Put a captured graph on the stream."""
        self._call("cuGraphLaunch", graph, self.stream)

    def _attribute(self, number: int) -> int:
        value = ctypes.c_int()
        self._call("cuDeviceGetAttribute", ctypes.byref(value), number, self._device)
        return value.value

    def _created(self, call: str, flags: int) -> ctypes.c_void_p:
        handle = ctypes.c_void_p()
        self._call(call, ctypes.byref(handle), flags)
        return handle

    def _call(self, name: str, *arguments: Any) -> None:  # noqa: ANN401 - what ctypes passes on
        """Call the driver.

        Raises:
            DriverError: it answers an error.
        """
        status = self._library.__getattr__(name)(*arguments)
        if status:
            text = ctypes.c_char_p()
            self._library.cuGetErrorName(status, ctypes.byref(text))
            raise DriverError(name, (text.value or str(status).encode()).decode())


def cuda_driver() -> CudaDriver:
    """Return the driver of this machine.

    Raises:
        LackingError: there is no driver, or it finds no GPU.
    """
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise LackingError("no GPU: there is no NVIDIA driver") from error
    try:
        return CudaDriver(library)
    except DriverError as error:
        raise LackingError(f"no GPU: {error}") from error
