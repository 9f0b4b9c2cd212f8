"""What a call of an ONNX engine is bound to: caches in place, and memory of its other tensors that is kept."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from specc.bundle.manifest import EngineSpec, TensorSpec
from specc.errors import SpeccBug
from specc.runtime.runners.runner import DTYPES, Array, Arrays

KEPT_BINDINGS: Final = 8


@dataclass
class CacheBinding:
    """A vendor binding whose caches are bound as input and output at once.

    Attributes:
        file: of the engine, for messages.
        pointers: of the caches, in the order their outputs were bound: before any other output.
        in_place: whether a call has shown that it returns this very memory.
        held: what the other tensors are bound to, by name. It stays while a tensor's shape does: to bind one again
            takes longer than to copy what it holds.
        sizes: of the dimensions that `taken` and `given` were held for.
        taken, given: memory of inputs and outputs by name, in the order of the engine.
    """

    file: str
    binding: Any
    pointers: tuple[int, ...]
    in_place: bool = False
    held: Arrays = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    taken: Arrays = field(default_factory=dict)
    given: Arrays = field(default_factory=dict)

    def run(
        self,
        session: Any,  # noqa: ANN401 - a vendor class
        spec: EngineSpec,
        inputs: Arrays,
        sizes: Mapping[str, int],
    ) -> Arrays:
        """Run the engine once and return its outputs but the caches, owned by the caller.

        Args:
            session: the vendor's.
            spec: the engine.
            inputs: all but the caches.
            sizes: of the dimensions, by name.

        Raises:
            SpeccBug: an input is missing, or of another dtype or shape than the spec says, or the engine did not write
                its caches in place.
        """
        if sizes != self.sizes:
            self._hold(spec, sizes)
        for name, memory in self.taken.items():
            array = inputs.get(name)
            if array is None or array.dtype != memory.dtype or array.shape != memory.shape:
                raise _other_input(spec, name, array, memory)
            memory[...] = array
        session.run_with_iobinding(self.binding)
        if not self.in_place:
            returned = self.binding.get_outputs()[: len(self.pointers)]
            if tuple(value.data_ptr() for value in returned) != self.pointers:
                raise SpeccBug(f"{self.file} returned caches in other memory than it was given")
            self.in_place = True
        return {name: memory.copy() for name, memory in self.given.items()}

    def _hold(self, spec: EngineSpec, sizes: Mapping[str, int]) -> None:
        """Bind memory for calls of such sizes."""
        bind_input, bind_output = self.binding.bind_input, self.binding.bind_output
        self.sizes = {}  # of neither, should a tensor name a dimension that has no size
        self.taken = {tensor.name: self._memory(tensor, sizes, bind_input) for tensor in spec.plain_inputs}
        self.given = {tensor.name: self._memory(tensor, sizes, bind_output) for tensor in spec.plain_outputs}
        self.sizes = dict(sizes)

    def _memory(self, tensor: TensorSpec, sizes: Mapping[str, int], bind: Callable[..., None]) -> Array:
        """Return the memory that a tensor of this shape is read from or written to, by every call."""
        shape, dtype = shape_of(tensor, sizes), DTYPES[tensor.dtype]
        array = self.held.get(tensor.name)
        if array is None or array.shape != shape:
            array = self.held[tensor.name] = np.empty(shape, dtype=dtype)
            bind(tensor.name, "cpu", 0, dtype, shape, array.ctypes.data)
        return array


def _other_input(spec: EngineSpec, name: str, array: Array | None, memory: Array) -> SpeccBug:
    got = "nothing" if array is None else f"{array.dtype} {list(array.shape)}"
    dtype = next(tensor.dtype for tensor in spec.plain_inputs if tensor.name == name)
    return SpeccBug(f"input {name} is {got}; the engine takes {dtype} {list(memory.shape)}")


class KeptBindings:
    """Bindings of the ranges of slots that were used last, of which a scheduler alternates between a few."""

    def __init__(self) -> None:
        self._bindings: OrderedDict[tuple[int, ...], CacheBinding] = OrderedDict()

    def kept(self, key: tuple[int, ...], made: Callable[[], CacheBinding]) -> CacheBinding:
        """Return the binding of a key: slots, and how often the memory of the caches was made anew."""
        if key not in self._bindings:
            self._bindings[key] = made()
            if len(self._bindings) > KEPT_BINDINGS:
                self._bindings.popitem(last=False)
        self._bindings.move_to_end(key)
        return self._bindings[key]

    def clear(self) -> None:
        """Forget all of them."""
        self._bindings.clear()


def bound_caches(
    session: Any,  # noqa: ANN401 - a vendor class
    spec: EngineSpec,
    arrays: Mapping[str, Array],
    first_slot: int,
    rows: int,
) -> CacheBinding:
    """Return a binding of the caches of a range of slots.

    Args:
        session: the vendor's.
        spec: names the caches.
        arrays: every cache [slots, KV, C, D] by name of its input.
        first_slot: of row 0.
        rows: of the call.
    """
    binding = session.io_binding()
    pointers = []
    for cache in spec.caches:
        window = arrays[cache.input][first_slot : first_slot + rows]
        if not window.flags.c_contiguous:
            raise SpeccBug(f"the slots of {cache.input} are not contiguous")
        pointer = window.ctypes.data
        dtype = window.dtype.type
        binding.bind_input(cache.input, "cpu", 0, dtype, window.shape, pointer)
        binding.bind_output(cache.output, "cpu", 0, dtype, window.shape, pointer)
        pointers.append(pointer)
    return CacheBinding(spec.file, binding, tuple(pointers))


def check_room(slots: int, capacity: int, first_slot: int, past_lengths: Array, written: int) -> None:
    """Check that every row has a slot, and room for what a call writes behind its valid cache rows.

    Raises:
        SpeccBug: one has not.
    """
    rows = len(past_lengths)
    if rows < 1 or first_slot < 0 or first_slot + rows > slots:
        raise SpeccBug(f"slots {first_slot} to {first_slot + rows - 1} asked, {slots} reserved")
    longest = max(past_lengths.tolist()) + written
    if longest > capacity:
        raise SpeccBug(f"a call would write {longest} cache rows into a capacity of {capacity}")


def shape_of(tensor: TensorSpec, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """Return a tensor's shape in a call."""
    return tuple(n if isinstance(n, int) else sizes[n] for n in tensor.shape)
