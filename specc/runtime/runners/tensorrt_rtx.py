"""TensorRT-RTX as the runner uses it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

from specc.errors import SpeccError
from specc.runtime.runners.tensorrt_cuda import cuda_device
from specc.runtime.runners.tensorrt_library import Context, Device, Engine

# The module tensorrt_rtx and objects of its classes; they ship without type hints.
Vendor: TypeAlias = Any

_SHOWN_MESSAGES = 5


class TensorRtRtx:
    """The installed library. Use `tensorrt_rtx_library` to make one.

    Args:
        trt: its module.
        cuda_graphs: whether its engines capture repeated shapes into CUDA graphs.
    """

    def __init__(self, trt: Vendor, *, cuda_graphs: bool = True) -> None:
        self._trt = trt
        self._cuda_graphs = cuda_graphs
        self._logger = _collecting_logger(trt)

    @property
    def name(self) -> str:
        """As engines are called in the manifest."""
        return "tensorrt-rtx"

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
                f"TensorRT-RTX {self.version} cannot load the engine; it said: {said}",
                "an engine is loaded by the version of the library that built it",
                "install the version that the manifest's toolchain names, or build the bundle again",
            )
        return RtxEngine(self._trt, runtime, engine, cuda_graphs=self._cuda_graphs)


class RtxEngine:
    """A deserialized engine, with the runtime it needs to stay alive."""

    def __init__(self, trt: Vendor, runtime: Vendor, engine: Vendor, *, cuda_graphs: bool) -> None:
        strategies = trt.CudaGraphStrategy
        self._strategy = strategies.WHOLE_GRAPH_CAPTURE if cuda_graphs else strategies.DISABLED
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

    def context(self, profile: int, stream: int) -> Context:
        """Return a new context for one profile; the library captures repeated shapes into CUDA graphs by itself."""
        config = self._engine.create_runtime_config()
        config.cuda_graph_strategy = self._strategy
        context = self._engine.create_execution_context(config)
        if context is None or not context.set_optimization_profile_async(profile, stream):
            raise _refused(f"a context for profile {profile}")
        return RtxContext(context)


class RtxContext:
    """The state of executions under one profile."""

    def __init__(self, context: Vendor) -> None:
        self._context = context

    @property
    def capturable(self) -> bool:
        """False: the library captures by itself, since it knows when kernels for a shape have been compiled."""
        return False

    def set_input_shape(self, name: str, shape: tuple[int, ...]) -> None:
        """State the shape of an input."""
        if not self._context.set_input_shape(name, shape):
            raise _refused(f"{name} of shape {shape}")

    def set_address(self, name: str, address: int) -> None:
        """State where a tensor lies."""
        if not self._context.set_tensor_address(name, address):
            raise _refused(f"the address of {name}")

    def execute(self, stream: int) -> None:
        """Put one execution on the stream."""
        if not self._context.execute_async_v3(stream):
            raise _refused("an execution")


def tensorrt_rtx_library(*, cuda_graphs: bool = True) -> TensorRtRtx:
    """Return the installed TensorRT-RTX.

    Args:
        cuda_graphs: see TensorRtRtx.

    Raises:
        SpeccError: SPC527 it is not installed.
    """
    try:
        import tensorrt_rtx
    except ImportError as error:
        raise SpeccError(
            "SPC527",
            "TensorRT-RTX",
            "the package `tensorrt_rtx` is not installed",
            "it loads and runs the engines of this bundle",
            "pip install 'specc[rtx]' cuda-python",
        ) from error
    return TensorRtRtx(tensorrt_rtx, cuda_graphs=cuda_graphs)


def _refused(what: str) -> SpeccError:
    return SpeccError(
        "SPC529",
        "TensorRT-RTX",
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
