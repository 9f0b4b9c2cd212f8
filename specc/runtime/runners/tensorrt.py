"""The runner of TensorRT engines: static caches on the device, a context a profile, one copy in and out a call."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from specc.bundle.manifest import EngineSpec, TensorSpec
from specc.errors import SpeccBug, SpeccError
from specc.runtime.runners.runner import Arrays
from specc.runtime.runners.tensorrt_calls import (
    CallShape,
    call_shape_from_inputs,
    check_capacity,
    cut_outputs,
    fill_inputs,
)
from specc.runtime.runners.tensorrt_layout import (
    ITEM_BYTES,
    Layout,
    layout_from_tensors,
    shape_from_dimensions,
)
from specc.runtime.runners.tensorrt_library import Context, Device, Engine, TensorRtLibrary

# The first executions of a shape compile kernels and must not be captured.
CAPTURE_AFTER: Final = 3
# Prepared calls kept; each is small, but a CUDA graph holds device memory.
PREPARED_CALLS: Final = 64


@dataclass
class PreparedCall:
    """What is computed once for a call's shape and first slot.

    Attributes:
        inputs, outputs: where its small tensors lie in the two blocks.
        uses: executions so far.
        graph: its CUDA graph, or None.
    """

    inputs: Layout
    outputs: Layout
    uses: int = 0
    graph: Any | None = None


class TensorRtRunner:
    """A target engine on a GPU.

    Args:
        spec: the engine as the manifest states it.
        file: the engine's file; its digest was checked.
        library: what loads and runs it.
        caches_of: the runner whose caches this engine shares; None gives it its own.

    Raises:
        SpeccError: SPC526 it was built for other GPUs, SPC527 there is no GPU, SPC528 it cannot be loaded, SPC529 the
            device has too little memory.
    """

    def __init__(
        self, spec: EngineSpec, file: Path, library: TensorRtLibrary, caches_of: TensorRtRunner | None = None
    ) -> None:
        assert spec.capacity is not None
        self._spec = spec
        self._device = library.device()
        check_device(spec, file, self._device)
        self._engine = library.engine(file)
        _check_names(spec, self._engine, file)
        caches = {cache.input for cache in spec.caches}, {cache.output for cache in spec.caches}
        self._small_inputs = tuple(tensor for tensor in spec.inputs if tensor.name not in caches[0])
        self._small_outputs = tuple(tensor for tensor in spec.outputs if tensor.name not in caches[1])
        self._row_bytes = {tensor.name: _row_bytes(tensor) for tensor in spec.inputs if tensor.name in caches[0]}
        self._stream = self._device.stream()
        self._contexts: dict[int, Context] = {}
        self._prepared: OrderedDict[tuple[CallShape, int], PreparedCall] = OrderedDict()
        self._owner = caches_of
        self._caches: dict[str, int] = {}
        self._slots = 0
        self._allocate_blocks()

    @property
    def spec(self) -> EngineSpec:
        """The engine's tensors and shapes."""
        return self._spec

    @property
    def caches(self) -> dict[str, int]:
        """Addresses of the caches by name, as they are now; a larger reservation moves them."""
        return dict(self._caches)

    def reserve(self, slots: int, length: int) -> None:
        """Make room for `slots` rows; the length of a static cache is fixed."""
        if self._spec.capacity is None or length > self._spec.capacity:
            raise SpeccBug(f"{length} cache rows were asked of an engine that has {self._spec.capacity}")
        if self._owner is not None:
            self._owner.reserve(slots, length)
            if self._caches != self._owner.caches:
                self._forget_prepared()
                self._caches = self._owner.caches
            self._slots = max(self._slots, slots)
            return
        if slots <= self._slots:
            return
        self._forget_prepared()  # their CUDA graphs hold the old addresses
        for name, row_bytes in self._row_bytes.items():
            grown = self._device.allocate(slots * row_bytes)
            if name in self._caches:
                self._device.copy(grown, self._caches[name], self._slots * row_bytes, self._stream)
                self._device.synchronize(self._stream)
                self._device.free(self._caches[name])
            self._caches[name] = grown
        self._slots = slots

    def step(self, first_slot: int, inputs: Arrays) -> Arrays:
        """Run one call whose row b is slot first_slot + b, see TargetRunner."""
        shape = call_shape_from_inputs(self._spec, inputs)
        if first_slot < 0 or first_slot + shape.batch > self._slots:
            raise SpeccBug(f"rows {first_slot} to {first_slot + shape.batch - 1} of {self._slots} reserved slots")
        check_capacity(self._spec, shape, inputs["past_lengths"])
        call = self._prepared_call(shape, first_slot)
        fill_inputs(call.inputs.views(self._host_in), inputs)
        self._device.upload(self._block_in, self._host_in[: call.inputs.nbytes], self._stream)
        self._execute(shape, first_slot, call)
        self._device.download(self._host_out[: call.outputs.nbytes], self._block_out, self._stream)
        self._device.synchronize(self._stream)
        tokens = inputs["input_ids"].shape[1]
        rows = inputs["logit_rows"].shape[1] if "logit_rows" in inputs else 1
        return cut_outputs(call.outputs.views(self._host_out), self._spec, tokens, rows)

    def close(self) -> None:
        """Free the engine and its caches."""
        self._device.synchronize(self._stream)
        self._forget_prepared()
        owned = self._caches.values() if self._owner is None else ()
        for address in (*owned, self._block_in, self._block_out):
            self._device.free(address)
        self._caches, self._slots = {}, 0
        self._contexts.clear()
        del self._host_in, self._host_out, self._engine
        self._device.close()

    def _allocate_blocks(self) -> None:
        """Allocate the two blocks for the largest call of any profile, so that their addresses never change."""
        widest = [
            {"B": profile.batch[2], "S": profile.tokens[2], "R": profile.logit_rows[2]}
            for profile in self._spec.profiles
        ]
        size_in = max(layout_from_tensors(self._small_inputs, sizes).nbytes for sizes in widest)
        size_out = max(layout_from_tensors(self._small_outputs, sizes).nbytes for sizes in widest)
        self._block_in, self._block_out = self._device.allocate(size_in), self._device.allocate(size_out)
        self._host_in, self._host_out = self._device.staging(size_in), self._device.staging(size_out)

    def _prepared_call(self, shape: CallShape, first_slot: int) -> PreparedCall:
        key = shape, first_slot
        if key not in self._prepared:
            while len(self._prepared) >= PREPARED_CALLS:
                self._release(self._prepared.popitem(last=False)[1])
            self._prepared[key] = PreparedCall(
                layout_from_tensors(self._small_inputs, shape.sizes),
                layout_from_tensors(self._small_outputs, shape.sizes),
            )
        self._prepared.move_to_end(key)
        return self._prepared[key]

    def _execute(self, shape: CallShape, first_slot: int, call: PreparedCall) -> None:
        if call.graph is not None:
            self._device.launch(call.graph, self._stream)
            return
        context = self._context(shape.profile)
        self._bind(context, shape, first_slot, call)
        call.uses += 1
        if call.uses > CAPTURE_AFTER and context.capturable:
            call.graph = self._device.capture(self._stream, lambda: context.execute(self._stream))
            self._device.launch(call.graph, self._stream)
        else:
            context.execute(self._stream)

    def _context(self, profile: int) -> Context:
        if profile not in self._contexts:
            self._contexts[profile] = self._engine.context(profile, self._stream)
        return self._contexts[profile]

    def _bind(self, context: Context, shape: CallShape, first_slot: int, call: PreparedCall) -> None:
        for place in call.inputs.places:
            context.set_input_shape(place.name, place.shape)
            context.set_address(place.name, self._block_in + place.offset)
        for place in call.outputs.places:
            context.set_address(place.name, self._block_out + place.offset)
        for tensor in self._spec.inputs:
            if tensor.name in self._caches:
                context.set_input_shape(tensor.name, shape_from_dimensions(tensor.shape, shape.sizes))
        for cache in self._spec.caches:
            address = self._caches[cache.input] + first_slot * self._row_bytes[cache.input]
            context.set_address(cache.input, address)
            context.set_address(cache.output, address)

    def _forget_prepared(self) -> None:
        self._device.synchronize(self._stream)
        while self._prepared:
            self._release(self._prepared.popitem()[1])

    def _release(self, call: PreparedCall) -> None:
        if call.graph is not None:
            self._device.release(call.graph)


def tensorrt_runner(bundle: Path, spec: EngineSpec, caches_of: TensorRtRunner | None = None) -> TensorRtRunner:
    """Load a TensorRT-RTX engine of a bundle on the current device.

    Args:
        bundle: folder that `spec.file` is relative to.
        spec: the engine.
        caches_of: the runner whose caches this engine shares; None gives it its own.

    Raises:
        SpeccError: SPC526 to SPC529, see TensorRtRunner.
    """
    from specc.runtime.runners.tensorrt_rtx import tensorrt_rtx_library

    return TensorRtRunner(spec, bundle / spec.file, tensorrt_rtx_library(), caches_of)


def check_device(spec: EngineSpec, file: Path, device: Device) -> None:
    """Refuse an engine that was built for other GPUs than the one here.

    Raises:
        SpeccError: SPC526 with what the engine was built for and what is here.
    """
    if device.compute_capability in spec.compute_capabilities:
        return
    built = ", ".join(spec.compute_capabilities)
    raise SpeccError(
        "SPC526",
        str(file),
        f"the engine was built for SM {built}; {device.title} is SM {device.compute_capability}",
        "an engine holds machine code of the GPUs it was built for",
        f"build the recipe for this GPU (backend.compute_capabilities with {device.compute_capability}), "
        "or run the bundle on a GPU it was built for",
    )


def _check_names(spec: EngineSpec, engine: Engine, file: Path) -> None:
    stated = {tensor.name for tensor in (*spec.inputs, *spec.outputs)}
    found = set(engine.tensor_names)
    if stated != found or engine.profile_count != len(spec.profiles):
        difference = ", ".join(sorted(stated ^ found)) or f"{engine.profile_count} profiles, not {len(spec.profiles)}"
        raise SpeccError(
            "SPC528",
            str(file),
            f"the engine differs from the manifest in {difference}",
            "the runtime binds what the manifest states",
            "build the bundle again",
        )


def _row_bytes(tensor: TensorSpec) -> int:
    count = ITEM_BYTES[tensor.dtype]
    for size in tensor.shape[1:]:
        assert isinstance(size, int)  # TensorRT caches are static but for B
        count *= size
    return count
