"""A verification with the plugin's kernels as a TensorRT engine of its own, built here and run over driver memory."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import onnx_ir as ir

from gpu_checks.launches import Buffers
from gpu_checks.machine import Machine
from gpu_checks.outcome import LackingError
from gpu_checks.verification import Call
from specc.bundle.manifest import AcceptanceMode
from specc.graph.verify import VERIFY_OUTPUTS, verify_graph
from specc.lower.passes import apply_passes
from specc.plan.plan import GraphPlan
from specc.plugin import variants
from specc.plugin.bundle import Kernel, KernelBundle
from specc.plugin.operators import TENSORS
from specc.plugin.registration import PluginLibrary
from specc.plugin.variants import KernelVariant, plugin_name

# The modules tensorrt and objects of its classes.
Vendor: TypeAlias = Any

SUPPORT: Final = 64
MOST_ROWS: Final = 8
OTHER_HASH: Final = "f" * 64


@dataclass(frozen=True)
class Changes:
    """What is handed to TensorRT in place of the bundle's own.

    Attributes:
        assembled: kernels assembled for the card, in place of their text.
        shared_bytes: dynamic shared memory of each launch; None: what the kernel needs.
    """

    assembled: bool = False
    shared_bytes: int | None = None


class ChangedBundle(KernelBundle):
    """A bundle whose kernels are handed out changed."""

    def __init__(self, machine: Machine, changes: Changes) -> None:
        own = machine.bundle()
        super().__init__(own.folder.parent, own.target.compute_capability)
        self._machine, self._changes = machine, changes

    def kernel(self, variant: KernelVariant) -> Kernel:
        """Return a kernel, checked as ever, then changed."""
        kernel = super().kernel(variant)
        if self._changes.shared_bytes is not None:
            kernel = replace(kernel, spec=replace(kernel.spec, shared_bytes=self._changes.shared_bytes))
        if self._changes.assembled:
            kernel = replace(kernel, ptx=self._machine.assemble(kernel.ptx, self.target))  # type: ignore[arg-type]
        return kernel


@dataclass
class Built:
    """An engine, and what its build left.

    Attributes:
        content: of the engine.
        timings: of the builder, serialized.
    """

    content: bytes
    timings: bytes


def tensorrt() -> Vendor:
    """Return the module.

    Raises:
        LackingError: it is not installed.
    """
    if importlib.util.find_spec("tensorrt") is None:
        raise LackingError("the package tensorrt is not installed")
    return importlib.import_module("tensorrt")


def library_of_other_source(trt: Vendor) -> PluginLibrary:
    """Return a library that registers the operators under the names that they would have with another source."""
    true_hash = variants.source_hash
    vars(variants)["source_hash"] = lambda: OTHER_HASH
    try:
        return PluginLibrary(trt, importlib.import_module("tensorrt.plugin"))
    finally:
        vars(variants)["source_hash"] = true_hash


def verification_model(machine: Machine, mode: AcceptanceMode, source: str | None = None) -> bytes:
    """Return the ONNX model of a verification as TensorRT gets it: float32 logits in, tokens out.

    Args:
        machine: with its sizes.
        mode: of acceptance.
        source: hash that the operators' names have; None: that of the kernels' true source.
    """
    graph = GraphPlan(
        compute_dtype="f32",
        capacity=64,
        capacity_buckets=(64,),
        max_logit_rows=machine.scale.gamma + 1,
        acceptance=mode,
        candidates=machine.scale.call(machine.scale.vocabularies[0]).candidates,
        features=(),
        variants=("main",),
        verification="plugin",
        support=SUPPORT,
    )
    model = verify_graph(graph, machine.scale.vocabularies[0])
    apply_passes(model, graph, "tensorrt")
    content = bytes(ir.to_proto(model).SerializeToString())
    if source is None:
        return content
    # Of the same length, so that the file stays whole.
    digits = len(plugin_name("")) - 1
    return content.replace(variants.source_hash()[:digits].encode(), source[:digits].encode())


def built(
    trt: Vendor, machine: Machine, mode: AcceptanceMode, timings: bytes = b"", source: str | None = None
) -> Built:
    """Build the engine of a mode; the kernels are those that the plugin library was told to use.

    Args:
        trt: the module.
        machine: with its sizes.
        mode: of acceptance.
        timings: of earlier builds.
        source: see `verification_model`.

    Raises:
        RuntimeError: TensorRT refuses, with what it said.
    """
    logger = trt.Logger(trt.Logger.ERROR)
    builder = trt.Builder(logger)
    network = builder.create_network(0)
    parser = trt.OnnxParser(network, logger)
    if not parser.parse(verification_model(machine, mode, source)):
        said = "; ".join(str(parser.get_error(i).desc()) for i in range(parser.num_errors))
        raise RuntimeError(f"the parser refuses the verification: {said}")
    config = builder.create_builder_config()
    profile, rows = builder.create_optimization_profile(), machine.scale.gamma + 1
    for index in range(network.num_inputs):
        tensor = network.get_input(index)
        rest = [size if size > 0 else rows for size in list(tensor.shape)[1:]]
        profile.set_shape(tensor.name, (1, *rest), (MOST_ROWS, *rest), (MOST_ROWS, *rest))
    config.add_optimization_profile(profile)
    cache = config.create_timing_cache(timings)
    config.set_timing_cache(cache, False)
    content = builder.build_serialized_network(network, config)
    if content is None:
        raise RuntimeError("the builder makes no engine; its messages are above")
    return Built(bytes(content), bytes(config.get_timing_cache().serialize()))


class Execution:
    """A loaded engine with one context, over buffers.

    Args:
        trt: the module.
        machine: whose driver has the memory and the stream.
        content: of the engine.
    """

    def __init__(self, trt: Vendor, machine: Machine, content: bytes) -> None:
        self._machine = machine
        self._runtime = trt.Runtime(trt.Logger(trt.Logger.ERROR))
        self._engine = self._runtime.deserialize_cuda_engine(content)
        if self._engine is None:
            raise RuntimeError("TensorRT does not load the engine")
        self._context = self._engine.create_execution_context()

    def bind(self, buffers: Buffers, call: Call) -> dict[str, tuple[int, ...]]:
        """Put a call on the device, state shapes and addresses, and return its inputs' shapes; outputs lie beside."""
        buffers.put("logits", call.logits, "f32")
        for name, array in call.inputs.items():
            element = TENSORS[name].dtype
            assert element is not None
            buffers.put(name, array, element)
        shapes = {name: buffer.shape for name, buffer in buffers.named.items()}
        self.reshape(shapes)
        for name in VERIFY_OUTPUTS:
            wide = TENSORS[name].shape == ("B", "R")
            buffers.make(name, "i64", call.logits.shape[:2] if wide else call.logits.shape[:1])
        for name in (*shapes, *VERIFY_OUTPUTS):
            self._told(self._context.set_tensor_address(name, buffers.named[name].address), f"the address of {name}")
        return shapes

    def reshape(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """State other shapes over the same memory, which is large enough."""
        for name, shape in shapes.items():
            self._told(self._context.set_input_shape(name, shape), f"{name} of shape {shape}")

    def run(self) -> None:
        """Put one execution on the stream."""
        self._told(self._context.execute_async_v3(self._machine.driver.stream.value), "an execution")

    def _told(self, accepted: bool, what: str) -> None:
        if not accepted:
            raise RuntimeError(f"TensorRT refuses {what}")
