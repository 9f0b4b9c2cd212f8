"""A builder in TensorRT's place: it takes ONNX files and the calls of specc, keeps what it was told, and builds text.

Enumerations, plugins and their launches are those of TensorRT's own Python layer (`tensorrt_layer.py`); builder, parser
and configuration are stood in for, since they need the library. Every name that the stand-ins have is a name of the
real classes, by test. What is written as an engine is a JSON text of all that shaped it.
"""

from __future__ import annotations

import importlib.metadata
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import onnx
import pytest

from specc.plugin.operators import OPERATORS
from specc.plugin.variants import plugin_name
from tests.cuda_modules import cuda_modules
from tests.plugin_launch import created, launch_of
from tests.tensorrt_layer import Layer, layer

H100 = ("NVIDIA H100 80GB HBM3", "9.0")
VERSION = "11.4.0.106"
OPERATOR_OF = {plugin_name(name): name for name in OPERATORS}
STEPS = 4
# Of the calls whose launches a build asks for; V and K are the node's own. W is the head of `TinyLlama`.
SIZES = {"B": 2, "R": 3, "S": 5, "W": 264, "KQ": 64, "H": 64}


@dataclass
class Machine:
    """What the double is told, and what it was asked.

    Attributes:
        gpu: name and SM; None for a machine without one.
        calls: what was called, in order, with what matters of its arguments.
        messages: that a build logs.
        refuses: every build ends without an engine.
        on_step: called at each step of a build.
        foreign_timings: no cache that holds anything is accepted.
    """

    gpu: tuple[str, str] | None = H100
    calls: list[tuple[Any, ...]] = field(default_factory=list)
    messages: tuple[str, ...] = ()
    refuses: bool = False
    on_step: Callable[[int], None] = lambda _step: None
    foreign_timings: bool = False

    def note(self, *call: Any) -> None:
        self.calls.append(call)

    def named(self, name: str) -> list[Any]:
        """Return the arguments of all calls of a name."""
        return [call[1] for call in self.calls if call[0] == name]


class TimingCache:
    """Networks that were timed, a line each."""

    def __init__(self, content: bytes) -> None:
        self.lines = set(content.split(b"\n")) - {b""}

    def serialize(self) -> bytes:
        return b"\n".join(sorted(self.lines))

    def combine(self, input_cache: TimingCache, ignore_mismatch: bool) -> bool:
        assert not ignore_mismatch
        self.lines |= input_cache.lines
        return True


class OptimizationProfile:
    def __init__(self) -> None:
        self._shapes: dict[str, list[list[int]]] = {}

    def set_shape(self, input: str, min: Any, opt: Any, max: Any) -> None:  # noqa: A002 - the library's names
        self._shapes[input] = [list(min), list(opt), list(max)]


class BuilderConfig:
    """Assigning what it does not have is refused."""

    __slots__ = ("_cache", "_machine", "_told", "hardware_compatibility_level", "progress_monitor")

    def __init__(self, machine: Machine) -> None:
        self._machine, self._cache = machine, None
        self._told: dict[str, Any] = {"profiles": [], "pools": {}}
        self.hardware_compatibility_level: Any = None
        self.progress_monitor: Any = None

    def add_optimization_profile(self, profile: OptimizationProfile) -> int:
        self._told["profiles"].append(profile._shapes)
        return len(self._told["profiles"]) - 1

    def set_memory_pool_limit(self, pool: Any, pool_size: int) -> None:
        self._told["pools"][pool.name] = pool_size

    def create_timing_cache(self, serialized_timing_cache: bytes) -> TimingCache:
        return TimingCache(serialized_timing_cache)

    def set_timing_cache(self, cache: TimingCache, ignore_mismatch: bool) -> bool:
        assert not ignore_mismatch
        if cache.lines and self._machine.foreign_timings:
            return False
        self._cache = cache
        return True

    def get_timing_cache(self) -> TimingCache | None:
        return self._cache


class NetworkDefinition:
    """What is looked at of a parsed file."""

    def __init__(self, trt: ModuleType, flags: int) -> None:
        self._trt, self._flags = trt, flags
        self._name, self._nodes, self._values = "", [], ([], [])

    def _parsed(self, path: Path) -> list[onnx.NodeProto]:
        graph = onnx.load(path, load_external_data=False).graph
        self._name, self._nodes, self._values = path.stem, list(graph.node), (list(graph.input), list(graph.output))
        return self._nodes

    @property
    def _layers(self) -> list[Any]:
        kinds = self._trt.LayerType
        made = {"TensorScatter": kinds.KV_CACHE_UPDATE, "Attention": kinds.ATTENTION_INPUT}
        made |= dict.fromkeys(OPERATOR_OF, kinds.PLUGIN_V3)
        return [
            SimpleNamespace(type=made[node.op_type], name=node.name, num_inputs=len(node.input),
                            get_input=[name or None for name in node.input].__getitem__)
            for node in self._nodes
            if node.op_type in made
        ]  # fmt: skip

    @property
    def num_layers(self) -> int:
        return len(self._layers)

    def get_layer(self, index: int) -> Any:
        return self._layers[index]

    @property
    def num_inputs(self) -> int:
        return len(self._values[0])

    @property
    def num_outputs(self) -> int:
        return len(self._values[1])

    def get_input(self, index: int) -> Any:
        return self._tensor(self._values[0][index])

    def get_output(self, index: int) -> Any:
        return self._tensor(self._values[1][index])

    def _tensor(self, value: Any) -> Any:
        types = self._trt.DataType
        kinds = {1: types.FLOAT, 10: types.HALF, 16: types.BF16, 7: types.INT64, 6: types.INT32, 9: types.BOOL}
        tensor = value.type.tensor_type
        shape = tuple(dim.dim_value if dim.HasField("dim_value") else -1 for dim in tensor.shape.dim)
        return SimpleNamespace(name=value.name, dtype=kinds[tensor.elem_type], shape=shape)


class OnnxParser:
    """Refuses an operator of specc whose creator is not registered, as the parser does."""

    _made: Layer
    _machine: Machine

    def __init__(self, network: NetworkDefinition, logger: Any) -> None:
        self._network, self._errors = network, []

    def parse_from_file(self, path: str) -> bool:
        self._machine.note("parse", Path(path).name)
        for node in self._network._parsed(Path(path)):
            found = attributes_of(node)
            key = node.op_type, found.get("plugin_version"), found.get("plugin_namespace")
            if "plugin_namespace" in found and key not in self._made.registry.creators:
                self._errors.append(node)
        return not self._errors

    @property
    def num_errors(self) -> int:
        return len(self._errors)

    def get_error(self, index: int) -> Any:
        node = self._errors[index]
        return SimpleNamespace(
            node_operator=lambda: node.op_type, node_name=lambda: node.name, desc=lambda: "Plugin not found"
        )


class Builder:
    _made: Layer
    _machine: Machine

    def __init__(self, logger: Any) -> None:
        self._logger = logger

    def create_network(self, flags: int) -> NetworkDefinition:
        return NetworkDefinition(self._made.trt, flags)

    def create_builder_config(self) -> BuilderConfig:
        return BuilderConfig(self._machine)

    def create_optimization_profile(self) -> OptimizationProfile:
        return OptimizationProfile()

    def build_serialized_network(self, network: NetworkDefinition, config: BuilderConfig) -> bytes | None:
        machine, trt = self._machine, self._made.trt
        machine.note("build", network._name)
        for message in machine.messages:
            self._logger.log(trt.ILogger.Severity.ERROR, message)
        if not self._stepped(config.progress_monitor) or machine.refuses:
            return None
        cache = config._cache
        if cache is not None:
            machine.note("timings", sorted(line.decode() for line in cache.lines))
            cache.lines.add(network._name.encode())
        level = config.hardware_compatibility_level
        told = config._told | {"compatibility": None if level is None else level.name, "flags": network._flags}
        told["kernels"] = [self._kernel(node, network) for node in network._nodes if node.op_type in OPERATOR_OF]
        machine.note("told", told)
        return json.dumps(told).encode()

    def _stepped(self, monitor: Any) -> bool:
        monitor.phase_start("outer", None, STEPS)
        for step in range(STEPS):
            monitor.phase_start("inner", "outer", 1)
            self._machine.on_step(step)
            inner = monitor.step_complete("inner", 0)
            monitor.phase_finish("inner")
            if not inner or not monitor.step_complete("outer", step):
                return False
        monitor.phase_finish("outer")
        return True

    def _kernel(self, node: onnx.NodeProto, network: NetworkDefinition) -> list[str]:
        """Ask for a kernel as the builder would; logits that the head alone does not make are float32."""
        found, row = attributes_of(node), OPERATORS[OPERATOR_OF[node.op_type]]
        plugin = created(self._made.trt, self._made.registry, node.op_type, found)
        scaled = any(other.op_type == "Mul" and node.input[0] in other.output for other in network._nodes)
        width = found["vocab_size"] if scaled else SIZES["W"]
        sizes = SIZES | {"V": found["vocab_size"], "K": found.get("candidates", 0), "W": width}
        launch = launch_of(self._made.trt, row, plugin, sizes, "f32" if scaled else "f16")
        return [launch.kernel[0], launch.kernel[1].decode()]


STAND_INS = {
    "Builder": Builder,
    "IBuilderConfig": BuilderConfig,
    "INetworkDefinition": NetworkDefinition,
    "IOptimizationProfile": OptimizationProfile,
    "ITimingCache": TimingCache,
    "OnnxParser": OnnxParser,
}


def attributes_of(node: onnx.NodeProto) -> dict[str, Any]:
    """Return a node's attributes, texts as str."""
    found = {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}
    return {name: value.decode() if isinstance(value, bytes) else value for name, value in found.items()}


@contextmanager
def tensorrt_machine(machine: Machine) -> Iterator[Layer]:
    """While the block runs, TensorRT can be imported, and the machine has its GPU."""
    version = importlib.metadata.version
    with layer() as made, pytest.MonkeyPatch.context() as patch:
        for name in ("Builder", "OnnxParser"):
            over = type(name, (STAND_INS[name],), {"_made": made, "_machine": machine})
            patch.setattr(made.trt, name, over)
        patch.setattr(importlib.metadata, "version", lambda name: VERSION if name == "tensorrt" else version(name))
        for name, module in cuda_modules(lambda: machine.gpu).items():
            patch.setitem(sys.modules, name, module)
        yield made
