"""TensorRT without a GPU: the calls of `specc.runtime.runners.tensorrt_library`, made with ONNX Runtime and NumPy.

Device addresses are numbers of an address space of their own, so that a host pointer used as one is noticed, and fresh
staging memory is full of rubbish. Executions see shapes and addresses as they were bound, under the profile's limits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from specc.bundle.manifest import EngineSpec, ProfileSpec
from specc.lower.lowered_from_plan import lowered_from_plan
from specc.plan.plan import BackendPlan, Plan
from specc.progress import silent
from specc.runtime.runners.tensorrt_library import Bytes, Rows
from tests.tiny_engines import FileSource

RUBBISH = 0xAB
SCRATCH_BYTES = 512
NUMPY = {"f32": np.float32, "f16": np.float16, "i64": np.int64}


class HostDevice:
    """Device memory as NumPy arrays, and a count of what was asked for."""

    def __init__(self, compute_capability: str = "8.9") -> None:
        self.compute_capability = compute_capability
        self.title = "a double"
        self.counts: dict[str, int] = {}
        self.captured: list[Callable[[], None]] | None = None
        self.log: list[str] = []
        self._blocks: dict[int, Bytes] = {}
        self._next = 1 << 44

    @property
    def live_blocks(self) -> int:
        return len(self._blocks)

    def _count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    def stream(self) -> int:
        return 7

    def allocate(self, nbytes: int) -> int:
        address = self._next
        self._next += (nbytes // 4096 + 2) * 4096
        self._blocks[address] = np.zeros(nbytes, dtype=np.uint8)
        return address

    def free(self, address: int) -> None:
        del self._blocks[address]

    def memory(self, address: int, nbytes: int) -> Bytes:
        for start, block in self._blocks.items():
            if start <= address and address + nbytes <= start + len(block):
                return block[address - start : address - start + nbytes]
        raise AssertionError(f"{nbytes} bytes at {address:#x} are not device memory")

    def staging(self, nbytes: int) -> Bytes:
        return np.full(nbytes, RUBBISH, dtype=np.uint8)

    def put(self, what: str, work: Callable[[], None]) -> None:
        """Run work of the stream, or record it where the stream is captured."""
        if self.captured is not None:
            self.captured.append(lambda: self._run(what, work))
        else:
            self._run(what, work)

    def _run(self, what: str, work: Callable[[], None]) -> None:
        self._count(what)
        self.log.append(what)
        work()

    def upload(self, address: int, host: Bytes, stream: int) -> None:
        def work() -> None:
            self.memory(address, host.nbytes)[:] = host

        self.put("upload", work)

    def download(self, host: Bytes, address: int, stream: int) -> None:
        def work() -> None:
            host[:] = self.memory(address, host.nbytes)

        self.put("download", work)

    def copy(self, target: int, source: int, nbytes: int, stream: int) -> None:
        def work() -> None:
            self.memory(target, nbytes)[:] = self.memory(source, nbytes)

        self.put("copy", work)

    def copy_rows(self, target: Rows, source: Rows, width: int, count: int, stream: int) -> None:
        assert width <= min(target.pitch, source.pitch)

        def work() -> None:
            for row in range(count):
                content = self.memory(source.address + row * source.pitch, width)
                self.memory(target.address + row * target.pitch, width)[:] = content

        self.put("copy rows", work)

    def synchronize(self, stream: int) -> None:
        assert self.captured is None, "a synchronization cannot be captured"
        self.log.append("synchronize")

    def capture(self, stream: int, work: Callable[[], None]) -> list[Callable[[], None]]:
        self._count("capture")
        self.captured = []
        work()
        graph, self.captured = self.captured, None
        return graph

    def launch(self, graph: list[Callable[[], None]], stream: int) -> None:
        self._count("launch")
        self.log.append("launch")
        for execution in graph:
            execution()

    def release(self, graph: list[Callable[[], None]]) -> None:
        self._count("release")
        graph.clear()

    def close(self) -> None:
        self._count("close")


@dataclass
class DoubleContext:
    """Binds names to shapes and addresses and runs an ONNX Runtime session on the memory there."""

    device: HostDevice
    session: Any
    spec: EngineSpec
    profile: ProfileSpec
    capturable: bool
    one_shape: bool = False
    scratch: int = 0
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    addresses: dict[str, int] = field(default_factory=dict)

    def set_input_shape(self, name: str, shape: tuple[int, ...]) -> None:
        limits = {"B": self.profile.batch, "S": self.profile.tokens, "R": self.profile.logit_rows}
        stated = next(tensor.shape for tensor in self.spec.inputs if tensor.name == name)
        for size, dimension in zip(shape, stated, strict=True):
            least, _, most = limits[dimension] if isinstance(dimension, str) else (dimension, 0, dimension)
            assert least <= size <= most, f"{name} {shape} is outside profile {self.profile.name}"
        assert not self.one_shape or self.shapes.get(name, shape) == shape, "a context must keep its shapes"
        self.shapes[name] = shape

    def set_address(self, name: str, address: int) -> None:
        assert address % 256 == 0 or name.startswith(("key_cache", "value_cache"))
        self.addresses[name] = address

    def execute(self, stream: int) -> None:
        shapes, addresses = dict(self.shapes), dict(self.addresses)
        for cache in self.spec.caches:
            assert addresses[cache.input] == addresses[cache.output], "the cache is not updated in place"
        if self.scratch:
            self.device.memory(self.scratch, SCRATCH_BYTES).fill(RUBBISH)
        called = self.spec.role if self.spec.variant != "whole" else "whole"
        self.device.put(f"execute {called}", lambda: self._run(shapes, addresses))

    def _run(self, shapes: dict[str, tuple[int, ...]], addresses: dict[str, int]) -> None:
        feeds = {}
        for tensor in self.spec.inputs:
            dtype, shape = np.dtype(NUMPY[tensor.dtype]), shapes[tensor.name]
            memory = self.device.memory(addresses[tensor.name], int(np.prod(shape)) * dtype.itemsize)
            feeds[tensor.name] = memory.view(dtype).reshape(shape).copy()
        for tensor, value in zip(self.spec.outputs, self.session.run(None, feeds), strict=True):
            assert value.dtype == NUMPY[tensor.dtype]
            content = np.frombuffer(value.tobytes(), dtype=np.uint8)
            self.device.memory(addresses[tensor.name], value.nbytes)[:] = content


@dataclass
class DoubleEngine:
    """An ONNX graph that was lowered for TensorRT, as an engine."""

    device: HostDevice
    session: Any
    spec: EngineSpec
    capturable: bool
    one_shape: bool = False
    contexts: int = 0

    @property
    def tensor_names(self) -> tuple[str, ...]:
        return tuple(value.name for value in (*self.session.get_inputs(), *self.session.get_outputs()))

    @property
    def profile_count(self) -> int:
        return len(self.spec.profiles)

    @property
    def scratch_bytes(self) -> int:
        return SCRATCH_BYTES if self.one_shape else 0

    def context(self, profile: int, stream: int, scratch: int) -> DoubleContext:
        assert bool(scratch) == self.one_shape
        self.contexts += 1
        return DoubleContext(
            self.device, self.session, self.spec, self.spec.profiles[profile], self.capturable, self.one_shape, scratch
        )


@dataclass
class DoubleLibrary:
    """The library; `engine` reads an ONNX file."""

    spec: EngineSpec
    capturable: bool = False
    one_shape: bool = False
    the_device: HostDevice = field(default_factory=HostDevice)
    name: str = "tensorrt-rtx"
    title: str = "a double of TensorRT"
    version: str = "double"
    engines: list[DoubleEngine] = field(default_factory=list)

    def device(self) -> HostDevice:
        return self.the_device

    def engine(self, file: Path) -> DoubleEngine:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
        self.engines.append(DoubleEngine(self.the_device, session, self.spec, self.capturable, self.one_shape))
        return self.engines[-1]


def rtx_profiles(max_batch: int, chunk: int, gamma: int, *, static_verify: bool = True) -> tuple[ProfileSpec, ...]:
    """Return a profile each for prefill, decode and verify."""
    rows = gamma + 1
    batch = (1, max_batch, max_batch)
    verify = (rows, rows, rows) if static_verify else (1, rows, rows)
    return (
        ProfileSpec("prefill", batch, (1, chunk, chunk), (1, 1, rows)),
        ProfileSpec("decode", batch, (1, 1, 1), (1, 1, 1)),
        ProfileSpec("verify", batch, verify, verify),
    )


def rtx_plan(plan: Plan, profiles: tuple[ProfileSpec, ...], *, sms: tuple[str, ...] = ("8.9",)) -> Plan:
    """Return a plan for TensorRT-RTX with a static capacity: the plan's largest bucket."""
    capacity = plan.graph.capacity_buckets[-1]
    graph = replace(plan.graph, capacity=capacity, capacity_buckets=(capacity,), variants=("main",))
    return replace(plan, graph=graph, backend=BackendPlan("tensorrt-rtx", profiles, sms), gpu="rtx-4090")


def lowered_for_rtx(plan: Plan, source: FileSource, folder: Path) -> EngineSpec:
    """Lower the main graph into `folder` and return the spec its engine would have; `file` is the ONNX file."""
    folder.mkdir()
    (graph,) = lowered_from_plan(plan, source, folder, silent).graphs
    return EngineSpec(
        role="target",
        variant="main",
        format="tensorrt-rtx",
        file=graph.file,
        compute_dtype=plan.graph.compute_dtype,
        inputs=graph.inputs,
        outputs=graph.outputs,
        caches=graph.caches,
        capacity=plan.graph.capacity,
        capacity_buckets=plan.graph.capacity_buckets,
        profiles=plan.backend.profiles,
        compute_capabilities=plan.backend.compute_capabilities,
    )
