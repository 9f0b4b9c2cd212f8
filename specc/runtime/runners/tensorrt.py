"""The runner of TensorRT engines: static caches on the device, a context a profile or a shape, one copy in and out."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from specc.bundle.manifest import DRAFT_PREFIX, EngineSpec, TensorSpec
from specc.errors import SpeccBug
from specc.runtime.runners.runner import Arrays
from specc.runtime.runners.tensorrt_calls import (
    CallShape,
    call_shape_from_inputs,
    check_capacity,
    cut_outputs,
    fill_inputs,
)
from specc.runtime.runners.tensorrt_checks import check_device, check_library, check_names
from specc.runtime.runners.tensorrt_layout import ITEM_BYTES, Layout, layout_from_tensors, shape_from_dimensions
from specc.runtime.runners.tensorrt_library import Context, Device, TensorRtLibrary

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


@dataclass(frozen=True)
class Beside:
    """The runners that an engine works beside.

    Attributes:
        caches_of: whose caches this engine shares; None: it has its own.
        draft_caches_of: whose caches are those of the draft in an engine that also has the target's.
        stream_of: on whose stream its calls go, so that they are in order without waiting; None: a stream of its own.
    """

    caches_of: TensorRtRunner | None = None
    draft_caches_of: TensorRtRunner | None = None
    stream_of: TensorRtRunner | None = None


ALONE: Final = Beside()


class TensorRtRunner:
    """An engine on a GPU.

    Args:
        spec: the engine as the manifest states it.
        file: the engine's file; its digest was checked.
        library: what loads and runs it.
        beside: runners whose caches or stream it shares.

    Raises:
        SpeccError: SPC526 it was built for other GPUs, SPC527 there is no GPU, SPC528 it cannot be loaded, SPC529 the
            device has too little memory.
    """

    def __init__(self, spec: EngineSpec, file: Path, library: TensorRtLibrary, beside: Beside = ALONE) -> None:
        assert spec.capacity is not None
        self._spec = spec
        check_library(spec, file, library)
        shares_stream = beside.stream_of or beside.caches_of
        self._owns_device = shares_stream is None
        self.device: Device = library.device() if shares_stream is None else shares_stream.device
        check_device(spec, file, self.device)
        self._engine = library.engine(file)
        check_names(spec, self._engine, file)
        caches = {cache.input for cache in spec.caches}, {cache.output for cache in spec.caches}
        self._small_inputs = tuple(tensor for tensor in spec.inputs if tensor.name not in caches[0])
        self._small_outputs = tuple(tensor for tensor in spec.outputs if tensor.name not in caches[1])
        self._row_bytes = {tensor.name: _row_bytes(tensor) for tensor in spec.inputs if tensor.name in caches[0]}
        self.stream: int = self.device.stream() if shares_stream is None else shares_stream.stream
        self._contexts: dict[CallShape | int, Context] = {}
        self._prepared: OrderedDict[tuple[CallShape, int], PreparedCall] = OrderedDict()
        self._owners = tuple(owner for owner in (beside.caches_of, beside.draft_caches_of) if owner is not None)
        self._owner_of_draft = beside.draft_caches_of
        self._followed = -1
        self._caches: dict[str, int] = {}
        self._slots = 0
        self.moves = 0
        self._allocate_blocks()

    @property
    def spec(self) -> EngineSpec:
        """The engine's tensors and shapes."""
        return self._spec

    @property
    def small_inputs(self) -> tuple[TensorSpec, ...]:
        """Its inputs without caches."""
        return self._small_inputs

    @property
    def small_outputs(self) -> tuple[TensorSpec, ...]:
        """Its outputs without caches."""
        return self._small_outputs

    @property
    def caches(self) -> dict[str, int]:
        """Addresses of the caches by name, as they are now; a larger reservation moves them."""
        return dict(self._caches)

    @property
    def slots(self) -> int:
        """Rows that there is room for."""
        return self._slots

    def reserve(self, slots: int, length: int) -> None:
        """Make room for `slots` rows; the length of a static cache is fixed."""
        if self._spec.capacity is None or length > self._spec.capacity:
            raise SpeccBug(f"{length} cache rows were asked of an engine that has {self._spec.capacity}")
        for owner in self._owners:
            assert owner.spec.capacity is not None
            owner.reserve(slots, min(length, owner.spec.capacity))
        self._follow_owners()
        if self._owners or slots <= self._slots:
            return
        self._forget_prepared()  # their CUDA graphs hold the old addresses
        for name, row_bytes in self._row_bytes.items():
            grown = self.device.allocate(slots * row_bytes)
            if name in self._caches:
                self.device.copy(grown, self._caches[name], self._slots * row_bytes, self.stream)
                self.device.synchronize(self.stream)
                self.device.free(self._caches[name])
            self._caches[name] = grown
        self._slots = slots
        self.moves += 1

    def step(self, first_slot: int, inputs: Arrays) -> Arrays:
        """Run one call whose row b is slot first_slot + b, see TargetRunner."""
        self._follow_owners()
        shape = call_shape_from_inputs(self._spec, inputs)
        self.check_slots(first_slot, shape.batch)
        check_capacity(self._spec, shape.tokens, inputs)
        call = self._prepared_call(shape, first_slot)
        fill_inputs(call.inputs.views(self._host_in), inputs)
        self.device.upload(self._block_in, self._host_in[: call.inputs.nbytes], self.stream)
        self._execute(shape, first_slot, call)
        self.device.download(self._host_out[: call.outputs.nbytes], self._block_out, self.stream)
        self.device.synchronize(self.stream)
        tokens = inputs["input_ids"].shape[1]
        rows = inputs["logit_rows"].shape[1] if "logit_rows" in inputs else 1
        return cut_outputs(call.outputs.views(self._host_out), self._spec, tokens, rows)

    def bound(self, shape: CallShape, first_slot: int, addresses: Mapping[str, int]) -> Context:
        """Return the context of a shape, ready to execute over the caches of the slots from `first_slot` on.

        Args:
            shape: of the call.
            first_slot: slot of row 0.
            addresses: where the small tensors lie, inputs and outputs.
        """
        context = self._context(shape)
        for tensor in self._spec.inputs:
            context.set_input_shape(tensor.name, shape_from_dimensions(tensor.shape, shape.sizes))
        for name, address in addresses.items():
            context.set_address(name, address)
        for cache in self._spec.caches:
            address = self._caches[cache.input] + first_slot * self._row_bytes[cache.input]
            context.set_address(cache.input, address)
            context.set_address(cache.output, address)
        return context

    def check_slots(self, first_slot: int, batch: int) -> None:
        """Refuse rows that nothing was reserved for.

        Raises:
            SpeccBug: a slot does not exist.
        """
        if first_slot < 0 or first_slot + batch > self._slots:
            raise SpeccBug(f"rows {first_slot} to {first_slot + batch - 1} of {self._slots} reserved slots")

    def close(self) -> None:
        """Free the engine and its caches; the runners whose stream or caches it shares are closed after it."""
        self.device.synchronize(self.stream)
        self._forget_prepared()
        owned = () if self._owners else self._caches.values()
        blocks = (self._block_in, self._block_out, *((self._scratch,) if self._scratch else ()))
        for address in (*owned, *blocks):
            self.device.free(address)
        self._caches, self._slots = {}, 0
        self._contexts.clear()
        del self._host_in, self._host_out, self._engine
        if self._owns_device:
            self.device.close()

    def _allocate_blocks(self) -> None:
        """Allocate the two blocks for the largest call of any profile, so that their addresses never change."""
        widest = [
            {"B": profile.batch[2], "S": profile.tokens[2], "R": profile.logit_rows[2]}
            for profile in self._spec.profiles
        ]
        size_in = max(layout_from_tensors(self._small_inputs, sizes).nbytes for sizes in widest)
        size_out = max(layout_from_tensors(self._small_outputs, sizes).nbytes for sizes in widest)
        self._block_in, self._block_out = self.device.allocate(size_in), self.device.allocate(size_out)
        self._host_in, self._host_out = self.device.staging(size_in), self.device.staging(size_out)
        scratch = self._engine.scratch_bytes
        self._scratch = self.device.allocate(scratch) if scratch else 0

    def _follow_owners(self) -> None:
        """Take the caches as their owners have them now."""
        moves = sum(owner.moves for owner in self._owners)
        if not self._owners or moves == self._followed:
            return
        self._forget_prepared()
        self._followed = moves
        self._caches = self._owners[0].caches
        if self._owner_of_draft is not None:
            self._caches |= {f"{DRAFT_PREFIX}{name}": at for name, at in self._owner_of_draft.caches.items()}
        self._slots = min(owner.slots for owner in self._owners)
        self.moves += 1

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
            self.device.launch(call.graph, self.stream)
            return
        addresses = {place.name: self._block_in + place.offset for place in call.inputs.places}
        addresses |= {place.name: self._block_out + place.offset for place in call.outputs.places}
        context = self.bound(shape, first_slot, addresses)
        call.uses += 1
        if call.uses > CAPTURE_AFTER and context.capturable:
            call.graph = self.device.capture(self.stream, lambda: context.execute(self.stream))
            self.device.launch(call.graph, self.stream)
        else:
            context.execute(self.stream)

    def _context(self, shape: CallShape) -> Context:
        key = shape if self._engine.one_shape else shape.profile
        if key not in self._contexts:
            self._contexts[key] = self._engine.context(shape.profile, self.stream, self._scratch)
        return self._contexts[key]

    def _forget_prepared(self) -> None:
        self.device.synchronize(self.stream)
        while self._prepared:
            self._release(self._prepared.popitem()[1])

    def _release(self, call: PreparedCall) -> None:
        if call.graph is not None:
            self.device.release(call.graph)


def tensorrt_runner(bundle: Path, spec: EngineSpec, beside: Beside = ALONE) -> TensorRtRunner:
    """Load a TensorRT or TensorRT-RTX engine of a bundle on the current device.

    Args:
        bundle: folder that `spec.file` is relative to.
        spec: the engine.
        beside: runners whose caches or stream it shares.

    Raises:
        SpeccError: SPC526 to SPC529, see TensorRtRunner.
    """
    from specc.runtime.runners.tensorrt_vendor import vendor_library

    return TensorRtRunner(spec, bundle / spec.file, vendor_library(spec.format), beside)


def _row_bytes(tensor: TensorSpec) -> int:
    count = ITEM_BYTES[tensor.dtype]
    for size in tensor.shape[1:]:
        assert isinstance(size, int)  # TensorRT caches are static but for B
        count *= size
    return count
