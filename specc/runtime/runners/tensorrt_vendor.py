"""TensorRT and TensorRT-RTX as the runner uses them: one adapter, and a row for what differs."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from specc.bundle.manifest import EngineFormat
from specc.errors import SpeccError
from specc.runtime.runners.tensorrt_cuda import cuda_device
from specc.runtime.runners.tensorrt_library import Context, Device, Engine

# The module tensorrt_rtx or tensorrt, and objects of its classes; they ship without type hints.
Vendor: TypeAlias = Any

_SHOWN_MESSAGES: Final = 5


@dataclass(frozen=True)
class VendorRow:
    """One of the two libraries.

    Attributes:
        format: as its engines are called in a manifest.
        title: as its maker calls it.
        module: the Python module.
        extra: of specc, that brings it.
        new_context: makes an execution context of an engine, with CUDA graphs of the library's own where it has them.
        captures_itself: the library captures repeated shapes into CUDA graphs, and nobody else must.
        one_shape: a context keeps the shapes of its first call: a change is reported to leak a module of a plugin's
            kernel (TensorRT issue 4849). Contexts then share the memory that the runner gives them.
    """

    format: EngineFormat
    title: str
    module: str
    extra: str
    new_context: Callable[[Vendor, Vendor], Vendor]
    captures_itself: bool
    one_shape: bool


def _rtx_context(trt: Vendor, engine: Vendor) -> Vendor:
    config = engine.create_runtime_config()
    config.cuda_graph_strategy = trt.CudaGraphStrategy.WHOLE_GRAPH_CAPTURE
    return engine.create_execution_context(config)


def _context_without_memory(trt: Vendor, engine: Vendor) -> Vendor:
    return engine.create_execution_context(trt.ExecutionContextAllocationStrategy.USER_MANAGED)


RTX_ROW: Final = VendorRow(
    "tensorrt-rtx", "TensorRT-RTX", "tensorrt_rtx", "rtx", _rtx_context, captures_itself=True, one_shape=False
)
TENSORRT_ROW: Final = VendorRow(
    "tensorrt", "TensorRT", "tensorrt", "tensorrt", _context_without_memory, captures_itself=False, one_shape=True
)
VENDOR_ROWS: Final[dict[str, VendorRow]] = {row.format: row for row in (RTX_ROW, TENSORRT_ROW)}


class VendorLibrary:
    """An installed library. Use `vendor_library` to make one.

    Args:
        row: which of the two.
        trt: its module.
    """

    def __init__(self, row: VendorRow, trt: Vendor) -> None:
        self._row = row
        self._trt = trt
        self._logger = _collecting_logger(trt)

    @property
    def name(self) -> str:
        """As its engines are called in the manifest."""
        return self._row.format

    @property
    def title(self) -> str:
        """As its maker calls it."""
        return self._row.title

    @property
    def version(self) -> str:
        """The library's version."""
        return str(self._trt.__version__)

    def device(self) -> Device:
        """Return the current device."""
        return cuda_device()

    def engine(self, file: Path) -> Engine:
        """Return the engine that a file holds."""
        runtime = self._trt.Runtime(self._logger)
        engine = runtime.deserialize_cuda_engine(file.read_bytes())
        if engine is None:
            said = " | ".join(self._logger.messages[-_SHOWN_MESSAGES:]) or "nothing"
            raise SpeccError(
                "SPC528",
                str(file),
                f"{self.title} {self.version} cannot load the engine; it said: {said}",
                "an engine is loaded by the version of the library that built it",
                "install the version that the manifest's toolchain names, or build the bundle again",
            )
        return VendorEngine(self._row, self._trt, runtime, engine)


class VendorEngine:
    """A deserialized engine, with the runtime it needs to stay alive."""

    def __init__(self, row: VendorRow, trt: Vendor, runtime: Vendor, engine: Vendor) -> None:
        self._row = row
        self._trt = trt
        self._runtime = runtime
        self._engine = engine

    @property
    def tensor_names(self) -> tuple[str, ...]:
        """Every input and output."""
        return tuple(self._engine.get_tensor_name(i) for i in range(self._engine.num_io_tensors))

    @property
    def profile_count(self) -> int:
        """Optimization profiles it was built with."""
        return int(self._engine.num_optimization_profiles)

    @property
    def one_shape(self) -> bool:
        """Whether each shape of calls wants a context of its own."""
        return self._row.one_shape

    @property
    def scratch_bytes(self) -> int:
        """Device memory that every context is to be given; 0 where contexts have their own."""
        return int(self._engine.device_memory_size_v2) if self._row.one_shape else 0

    def context(self, profile: int, stream: int, scratch: int) -> Context:
        """Return a new context for one profile."""
        context = self._row.new_context(self._trt, self._engine)
        if context is None or not context.set_optimization_profile_async(profile, stream):
            raise _refused(self._row, f"a context for profile {profile}")
        if scratch:
            context.set_device_memory(scratch, self.scratch_bytes)
        return VendorContext(self._row, context)


class VendorContext:
    """The state of executions under one profile."""

    def __init__(self, row: VendorRow, context: Vendor) -> None:
        self._row = row
        self._context = context

    @property
    def capturable(self) -> bool:
        """Whether an execution may be captured; not where the library does it, knowing which kernels are compiled."""
        return not self._row.captures_itself

    def set_input_shape(self, name: str, shape: tuple[int, ...]) -> None:
        """State the shape of an input."""
        if not self._context.set_input_shape(name, shape):
            raise _refused(self._row, f"{name} of shape {shape}")

    def set_address(self, name: str, address: int) -> None:
        """State where a tensor lies."""
        if not self._context.set_tensor_address(name, address):
            raise _refused(self._row, f"the address of {name}")

    def execute(self, stream: int) -> None:
        """Put one execution on the stream."""
        if not self._context.execute_async_v3(stream):
            raise _refused(self._row, "an execution")


def vendor_library(engine_format: EngineFormat) -> VendorLibrary:
    """Return the installed library that loads engines of a format.

    Args:
        engine_format: key of VENDOR_ROWS.

    Raises:
        SpeccError: SPC527 it is not installed.
    """
    row = VENDOR_ROWS[engine_format]
    try:
        trt = importlib.import_module(row.module)
    except ImportError as error:
        raise SpeccError(
            "SPC527",
            row.title,
            f"the package `{row.module}` is not installed",
            "it loads and runs the engines of this bundle",
            f"pip install 'specc[{row.extra}]' cuda-python",
        ) from error
    return VendorLibrary(row, trt)


def _refused(row: VendorRow, what: str) -> SpeccError:
    return SpeccError(
        "SPC529",
        row.title,
        f"the library refuses {what}",
        "without it the call cannot run",
        "free device memory; if there is enough, report this with the library's version",
    )


def _collecting_logger(trt: Vendor) -> Vendor:
    class CollectingLogger(trt.ILogger):  # type: ignore[misc]
        def __init__(self) -> None:
            trt.ILogger.__init__(self)
            self.messages: list[str] = []

        def log(self, severity: Vendor, message: str) -> None:
            if severity <= trt.ILogger.Severity.ERROR:
                self.messages.append(message)

    return CollectingLogger()
