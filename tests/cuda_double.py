"""The CUDA driver's library without a GPU: what `gpu_checks.driver` calls, over host memory.

Device addresses are an address space of its own, so that a host pointer used as one is noticed. A launch reads exactly
as many arguments as the kernel's text declares and runs the operator in Triton's interpreter; time is counted, not
measured. `wrong` says what a double does wrong, so that each check is seen to fail.
"""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from gpu_checks.launches import NUMPY
from specc.plugin.operators import DIGITS, OPERATORS, TENSORS
from specc.plugin.ptx import POINTER, header_from_ptx
from tests.fake_kernels import ASSEMBLED

TORCH = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "i64": torch.int64, "i32": torch.int32}
INVALID_VALUE, INVALID_IMAGE, NO_BINARY = 1, 200, 209
NAMES = {INVALID_VALUE: b"CUDA_ERROR_INVALID_VALUE", INVALID_IMAGE: b"CUDA_ERROR_INVALID_IMAGE",
         NO_BINARY: b"CUDA_ERROR_NO_BINARY_FOR_GPU"}  # fmt: skip
MOST_SHARED = 48 * 1024


@dataclass
class FakeKernel:
    """A loaded kernel."""

    operator: str
    dtype: str
    kinds: tuple[str, ...]
    threads: int
    shared: int = MOST_SHARED


@dataclass
class CudaDouble:
    """The library. Attributes named as in cuda.h are its calls; `wrong` is what it does wrong."""

    compute_capability: str = "9.0"
    devices: int = 1
    wrong: str = ""
    blocks: dict[int, np.ndarray[Any, Any]] = field(default_factory=dict)
    handles: dict[int, Any] = field(default_factory=dict)
    recorded: list[Callable[[], None]] | None = None
    nanoseconds: int = 0
    launches: int = 0
    leaked: int = 0
    _next: int = 1 << 44

    def __getattr__(self, name: str) -> Any:
        if name.startswith("cu") and f"_{name}" in type(self).__dict__:
            return type(self).__dict__[f"_{name}"].__get__(self)
        raise AttributeError(name)

    def _handle(self, place: Any, thing: Any) -> int:
        number = len(self.handles) + 1
        self.handles[number] = thing
        place._obj.value = number
        return 0

    def memory(self, address: int, nbytes: int) -> np.ndarray[Any, Any]:
        for start, block in self.blocks.items():
            if start <= address and address + nbytes <= start + len(block):
                return block[address - start : address - start + nbytes]
        raise AssertionError(f"{nbytes} bytes at {address:#x} are not device memory")

    def _put(self, work: Callable[[], None], nanoseconds: int) -> int:
        """Run work, or record it where the stream is captured."""

        def timed() -> None:
            self.nanoseconds += nanoseconds
            work()

        if self.recorded is None:
            timed()
        else:
            self.recorded.append(timed)
        return 0

    def _cuInit(self, flags: int) -> int:
        return 0

    def _cuDeviceGetCount(self, count: Any) -> int:
        count._obj.value = self.devices
        return 0

    def _cuDeviceGet(self, device: Any, index: int) -> int:
        device._obj.value = index
        return 0

    def _cuDevicePrimaryCtxRetain(self, context: Any, device: Any) -> int:
        return self._handle(context, "context")

    def _cuCtxSetCurrent(self, context: Any) -> int:
        assert self.handles[context.value] == "context"
        return 0

    def _cuStreamCreate(self, stream: Any, flags: int) -> int:
        return self._handle(stream, "stream")

    def _cuDeviceGetName(self, name: Any, size: int, device: Any) -> int:
        name.value = b"a double"
        return 0

    def _cuDriverGetVersion(self, version: Any) -> int:
        version._obj.value = 13000
        return 0

    def _cuDeviceGetAttribute(self, value: Any, number: int, device: Any) -> int:
        major, minor = map(int, self.compute_capability.split("."))
        known = {16: 132, 36: 1_000_000, 37: 512, 38: 50_000_000, 75: major, 76: minor, 97: 227 * 1024}
        value._obj.value = known[number]
        return 0

    def _cuMemGetInfo_v2(self, free: Any, total: Any) -> int:
        total._obj.value = 1 << 34
        free._obj.value = (1 << 34) - sum(map(len, self.blocks.values())) - self.leaked
        return 0

    def _cuMemAlloc_v2(self, address: Any, nbytes: Any) -> int:
        address._obj.value = self._next
        self.blocks[self._next] = np.zeros(nbytes.value, dtype=np.uint8)
        self._next += (nbytes.value // 4096 + 2) * 4096
        return 0

    def _cuMemFree_v2(self, address: Any) -> int:
        del self.blocks[address.value]
        return 0

    def _cuMemsetD8Async(self, address: Any, byte: int, nbytes: Any, stream: Any) -> int:
        return self._put(lambda: self.memory(address.value, nbytes.value).fill(byte), nbytes.value // 60)

    def _cuMemcpyHtoDAsync_v2(self, address: Any, host: Any, nbytes: Any, stream: Any) -> int:
        source = (ctypes.c_uint8 * nbytes.value).from_address(host.value)
        content = np.frombuffer(source, dtype=np.uint8).copy()
        self.memory(address.value, nbytes.value)[:] = content
        return 0

    def _cuMemcpyDtoHAsync_v2(self, host: Any, address: Any, nbytes: Any, stream: Any) -> int:
        ctypes.memmove(host.value, self.memory(address.value, nbytes.value).tobytes(), nbytes.value)
        return 0

    def _cuMemcpyDtoDAsync_v2(self, target: Any, source: Any, nbytes: Any, stream: Any) -> int:
        size = nbytes.value

        def work() -> None:
            self.memory(target.value, size)[:] = self.memory(source.value, size)

        return self._put(work, size // 60)

    def _cuModuleLoadData(self, module: Any, image: Any) -> int:
        content = image.value
        assembled = content.startswith(ASSEMBLED)
        text = content.removeprefix(ASSEMBLED).decode()
        header = header_from_ptx(text)
        if header is None:
            return INVALID_IMAGE
        sm = int(self.compute_capability.replace(".", ""))
        built = int(header.target.removeprefix("sm_").removesuffix("a"))
        exact = header.target.endswith("a")
        if built > sm or (exact and built != sm) or (assembled and built // 10 != sm // 10):
            return NO_BINARY
        operator, dtype = text.splitlines()[0].split()[1:]
        kinds = header.parameters if self.wrong != "parameters" else (*header.parameters, POINTER)
        return self._handle(module, FakeKernel(operator, dtype, kinds, header.threads))

    def _cuModuleUnload(self, module: Any) -> int:
        del self.handles[module.value]
        self.handles[module.value] = None
        return 0

    def _cuModuleGetFunction(self, function: Any, module: Any, entry: bytes) -> int:
        kernel = self.handles[module.value]
        assert OPERATORS[kernel.operator].kernel == entry.decode()
        return self._handle(function, kernel)

    def _cuFuncGetParamInfo(self, function: Any, place: Any, offset: Any, size: Any) -> int:
        kinds = self.handles[function.value].kinds
        if place.value >= len(kinds):
            return INVALID_VALUE
        size._obj.value = 8 if kinds[place.value] == POINTER else 4
        return 0

    def _cuFuncSetAttribute(self, function: Any, attribute: int, value: int) -> int:
        assert attribute == 8
        self.handles[function.value].shared = value
        return 0

    def _cuLaunchKernel(self, function: Any, *given: Any) -> int:
        grid, block, shared, stream, places, extra = given[:3], given[3:6], *given[6:]
        kernel: FakeKernel = self.handles[function.value]
        assert block == (kernel.threads, 1, 1)
        assert self.handles[stream.value] == "stream"
        assert extra is None
        if shared > kernel.shared:
            return INVALID_VALUE
        assert len(places) >= len(kernel.kinds) - (self.wrong == "parameters"), "an argument is missing"
        types = {POINTER: ctypes.c_uint64}
        values = [
            ctypes.cast(place, ctypes.POINTER(types.get(kind, ctypes.c_int32)))[0]
            for kind, place in zip(kernel.kinds, places, strict=False)
        ]
        self.launches += 1
        return self._put(lambda: self._run(kernel, grid, values), 2000)

    def _run(self, kernel: FakeKernel, grid: tuple[int, int, int], values: list[int]) -> None:
        row = OPERATORS[kernel.operator]
        arguments: dict[str, Any] = {}
        outputs = []
        names = (*row.inputs, *row.scalars, *row.outputs)
        for name, value in zip(names, values, strict=False):
            if name in row.scalars:
                arguments[name] = value
                continue
            dtype = TENSORS[name].dtype or kernel.dtype
            block = next(b for s, b in self.blocks.items() if s <= value < s + len(b))
            start = next(s for s, b in self.blocks.items() if s <= value < s + len(b))
            rest = block[value - start :]
            item = NUMPY[dtype].itemsize
            flat = torch.from_numpy(rest[: len(rest) // item * item]).view(TORCH[dtype])
            arguments[name] = flat
            if name in row.outputs:
                outputs.append(flat)
        arguments |= dict(row.constants)
        if row.kernel == "row_thresholds":
            arguments["DIGITS"] = DIGITS[kernel.dtype]
        if "UPCAST" in arguments:
            arguments["UPCAST"] = 1  # the interpreter's product of bfloat16 is wrong
        function = getattr(importlib.import_module(f"specc.plugin.kernels.{row.kernel}"), row.kernel)
        for name in function.arg_names:
            arguments.setdefault(name, 0 if name.isupper() else None)
        function[grid[: len(row.grid)]](**arguments)
        self._spoil(kernel, outputs)

    def _spoil(self, kernel: FakeKernel, outputs: list[torch.Tensor]) -> None:
        if self.wrong == "result" and kernel.operator in ("GreedyAccept", "CoupledAccept", "EmitTokens"):
            outputs[0][0] = 9999
        if self.wrong == "behind":
            outputs[-1][-1] = 3
        if self.wrong == "race" and kernel.operator == "RowThresholds" and self.launches % 2:
            outputs[1][:4] = 0
        if self.wrong == "head" and kernel.operator == "GreedyHeadPartials":
            outputs[1][:-1024] += 1  # all but the guard

    def _cuEventCreate(self, event: Any, flags: int) -> int:
        return self._handle(event, [0])

    def _cuEventRecord(self, event: Any, stream: Any) -> int:
        self.handles[event.value][0] = self.nanoseconds
        return 0

    def _cuEventElapsedTime(self, spent: Any, start: Any, end: Any) -> int:
        took = self.handles[end.value][0] - self.handles[start.value][0]
        spent._obj.value = (1 if self.wrong == "clock" else took) / 1e6
        return 0

    def _cuEventDestroy_v2(self, event: Any) -> int:
        return 0

    def _cuStreamSynchronize(self, stream: Any) -> int:
        assert self.recorded is None, "a synchronization cannot be captured"
        return 0

    def _cuStreamBeginCapture_v2(self, stream: Any, mode: int) -> int:
        self.recorded = []
        return 0

    def _cuStreamEndCapture(self, stream: Any, graph: Any) -> int:
        recorded, self.recorded = self.recorded, None
        return self._handle(graph, recorded)

    def _cuGraphInstantiateWithFlags(self, executable: Any, graph: Any, flags: Any) -> int:
        return self._handle(executable, list(self.handles[graph.value]))

    def _cuGraphDestroy(self, graph: Any) -> int:
        self.handles[graph.value] = None
        return 0

    def _cuGraphLaunch(self, graph: Any, stream: Any) -> int:
        for work in self.handles[graph.value][: -1 if self.wrong == "graph" else None]:
            work()
        return 0

    def _cuGetErrorName(self, status: int, text: Any) -> int:
        text._obj.value = NAMES[status]
        return 0
