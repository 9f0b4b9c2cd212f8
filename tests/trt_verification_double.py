"""TensorRT for the verification alone: an engine is the ONNX model, an execution the oracle over double memory."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx

from gpu_checks.launches import NUMPY
from gpu_checks.verification import VERIFY_OUTPUTS
from specc.plugin.operators import CHAINS, OPERATORS, TENSORS
from specc.plugin.variants import variant_of
from specc.speculation.acceptance import verify_step
from specc.speculation.judged import judged_step
from specc.speculation.rules import REJECTION
from tests.cuda_double import MOST_SHARED, CudaDouble
from tests.fake_kernels import ASSEMBLED
from tests.gpu_machine import SMALL

CANDIDATES = SMALL.candidates[-1]


class Library:
    """In the place of the process's plugin library."""

    bundle: Any = None

    def use(self, bundle: Any) -> None:
        self.bundle = bundle


class FakeTensorRt:
    """The module; `wrong` of the double is what it does wrong."""

    __version__ = "double"

    def __init__(self, double: CudaDouble, library: Library) -> None:
        self.double, self.library = double, library
        self.Logger = lambda _severity: None
        self.Logger.ERROR = 0  # type: ignore[attr-defined]

    def Builder(self, _logger: Any) -> Any:
        return FakeBuilder(self)

    def OnnxParser(self, network: Any, _logger: Any) -> Any:
        def parse(content: bytes) -> bool:
            network.model = onnx.load_from_string(content)
            return True

        return SimpleNamespace(parse=parse, num_errors=0)

    def Runtime(self, _logger: Any) -> Any:
        return SimpleNamespace(deserialize_cuda_engine=lambda content: FakeEngine(self, content))


class FakeNetwork:
    model: onnx.ModelProto

    @property
    def num_inputs(self) -> int:
        return len(self.model.graph.input)

    def get_input(self, index: int) -> Any:
        value = self.model.graph.input[index]
        dims = value.type.tensor_type.shape.dim
        return SimpleNamespace(name=value.name, shape=[d.dim_value if d.HasField("dim_value") else -1 for d in dims])


class FakeBuilder:
    def __init__(self, trt: FakeTensorRt) -> None:
        self.trt = trt

    def create_network(self, flags: int) -> FakeNetwork:
        assert flags == 0
        return FakeNetwork()

    def create_optimization_profile(self) -> Any:
        def set_shape(name: str, least: Any, usual: Any, most: Any) -> None:
            assert len(least) == len(most)
            assert all(size > 0 for size in most), name

        return SimpleNamespace(set_shape=set_shape)

    def create_builder_config(self) -> Any:
        held: dict[str, set[str]] = {}
        return SimpleNamespace(
            held=held,
            add_optimization_profile=lambda _profile: 0,
            create_timing_cache=lambda content: set(content.decode().split()),
            set_timing_cache=lambda cache, _ignore: held.update(cache=cache),
            get_timing_cache=lambda: SimpleNamespace(serialize=lambda: " ".join(sorted(held["cache"])).encode()),
        )

    def build_serialized_network(self, network: FakeNetwork, config: Any) -> bytes | None:
        for node in network.model.graph.node:
            name = node.op_type.split("_")[0]
            if name in OPERATORS:
                kernel = self.trt.library.bundle.kernel(variant_of(name, "f32", 48))
                if kernel.spec.shared_bytes > MOST_SHARED:
                    return None
                assert kernel.ptx.startswith(ASSEMBLED) if isinstance(kernel.ptx, bytes) else "entry" in kernel.ptx
                config.held["cache"].add(node.op_type)
        if self.trt.double.wrong == "timings":
            config.held["cache"].add(f"again{len(config.held['cache'])}")
        return network.model.SerializeToString()


class FakeEngine:
    def __init__(self, trt: FakeTensorRt, content: bytes) -> None:
        self.trt, self.model = trt, onnx.load_from_string(content)

    def create_execution_context(self) -> Any:
        return FakeContext(self)


class FakeContext:
    def __init__(self, engine: FakeEngine) -> None:
        self.engine, self.double = engine, engine.trt.double
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.addresses: dict[str, int] = {}

    def set_input_shape(self, name: str, shape: tuple[int, ...]) -> bool:
        if self.double.wrong == "leak" and self.shapes.get(name, shape) != shape:
            self.double.leaked += 1 << 23
        self.shapes[name] = shape
        return True

    def set_tensor_address(self, name: str, address: int) -> bool:
        self.addresses[name] = address
        return True

    def execute_async_v3(self, stream: int) -> bool:
        return self.double._put(self._run, 1000) == 0

    def _run(self) -> None:
        inputs = {}
        for name, shape in self.shapes.items():
            dtype = NUMPY[TENSORS[name].dtype or "f32"]
            memory = self.double.memory(self.addresses[name], int(np.prod(shape)) * dtype.itemsize)
            inputs[name] = memory.view(dtype).reshape(shape).copy()
        logits = inputs.pop("logits")
        used = {node.op_type.split("_")[0] for node in self.engine.model.graph.node}
        if set(CHAINS["rejection"]) <= used:
            outputs = judged_step(logits, inputs, CANDIDATES, REJECTION).outputs
        else:
            outputs = verify_step(logits, inputs, CANDIDATES).outputs
        for name in VERIFY_OUTPUTS:
            value = outputs[name] + (self.double.wrong == "engine")
            self.double.memory(self.addresses[name], value.nbytes)[:] = np.frombuffer(value.tobytes(), dtype=np.uint8)
