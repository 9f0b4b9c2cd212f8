"""Caches in host memory, one array per tensor, whose capacity follows the real length in buckets."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from specc.bundle.manifest import EngineSpec
from specc.errors import SpeccBug
from specc.runtime.runners.runner import DTYPES, Array

BLOCK_BYTES: Final = 32 << 20
"""Up to this size tensors share memory: NumPy asks for huge pages under arrays from 4 MiB on, and a call reads every
cache. Not all share one block, because a new one stands beside the old one while rows are copied."""
ROOM: Final = 2
"""Memory of a new block over what its tensors need: they grow within it, which takes a third of the time of new memory.
What nothing was written to is no memory yet."""


class HostCaches:
    """The cache tensors of a number of slots, each contiguous [slots, KV, C, D], so that any range of slots is.

    Rows are zero until they are written: a stale row is masked, but 0 times a value that is no number would not be 0.

    Attributes:
        slots: rows of the largest call.
        capacity: C.
        arrays: by name of the cache input.
        used: int64 [slots], cache rows of each slot that a later call may still read.
        moves: how often the arrays were made anew: addresses of before are void.
    """

    def __init__(self, spec: EngineSpec) -> None:
        self._buckets = spec.capacity_buckets
        shapes = {tensor.name: tensor for tensor in spec.inputs}
        self._rows = {
            cache.input: (int(shapes[cache.input].shape[1]), int(shapes[cache.input].shape[3])) for cache in spec.caches
        }
        (dtype,) = {shapes[cache.input].dtype for cache in spec.caches} or {spec.compute_dtype}
        self._dtype = DTYPES[dtype]
        self.slots = 0
        self.moves = 0
        self.capacity = self._buckets[0]
        self.used: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self.arrays: dict[str, Array] = dict(self._made(0, self.capacity))

    def reserve(self, slots: int, length: int) -> bool:
        """Give `slots` slots a capacity of the smallest bucket that holds `length` rows and all used ones.

        One bucket more than that stays as it is: else calls of one token and of several would move memory in turns.

        Returns:
            Whether memory moved.

        Raises:
            SpeccBug: no bucket is as long.
        """
        self.used[slots:] = 0
        rows = max(self.used.tolist(), default=0)  # NumPy's own takes ten times as long of a few numbers
        bucket = self._bucket(max(length, rows))
        # Fewer slots alone move nothing: a batch that loses a request would copy every cache.
        if slots <= self.slots and self.capacity in self._buckets[bucket : bucket + 2]:
            return False
        capacity = self._buckets[bucket]
        kept = min(slots, self.slots)
        if not self._grow(slots, capacity, rows):
            for name, new in self._made(slots, capacity):
                new[:kept, :, :rows] = self.arrays[name][:kept, :, :rows]
                self.arrays[name] = new
        self.used = np.concatenate([self.used[:kept], np.zeros(slots - kept, dtype=np.int64)])
        self.slots, self.capacity = slots, capacity
        self.moves += 1
        return True

    def _bucket(self, length: int) -> int:
        """Return which bucket is the smallest that is long enough."""
        for index, bucket in enumerate(self._buckets):
            if length <= bucket:
                return index
        raise SpeccBug(f"{length} cache rows asked of an engine whose largest capacity is {self._buckets[-1]}")

    def _grow(self, slots: int, capacity: int, rows: int) -> bool:
        """Spread the tensors over more of their blocks' memory, with their first `rows` cache rows; all or none.

        From the last to the first: no tensor then begins before its old place, and what lies behind has moved already.

        Returns:
            Whether every block has room, and nothing is to shrink.
        """
        if slots < self.slots or capacity < self.capacity:
            return False
        shapes, blocks = self._shapes(slots, capacity), dict[int, tuple[Array, list[str]]]()
        for name, array in self.arrays.items():
            assert array.base is not None
            blocks.setdefault(id(array.base), (array.base, []))[1].append(name)
        if any(sum(math.prod(shapes[name]) for name in names) > memory.size for memory, names in blocks.values()):
            return False
        for memory, names in blocks.values():
            for name, new in reversed(list(_views(memory, {name: shapes[name] for name in names}))):
                new[: self.slots, :, :rows] = self.arrays[name][:, :, :rows]  # NumPy minds where both overlap
                new[: self.slots, :, rows:] = 0
                new[self.slots :] = 0
                self.arrays[name] = new
        return True

    def _made(self, slots: int, capacity: int) -> Iterator[tuple[str, Array]]:
        """Give the tensors one by one, zeros, made block by block as they are asked for."""
        shapes = self._shapes(slots, capacity)
        numbers = {name: math.prod(shape) for name, shape in shapes.items()}
        for names in _blocks(numbers, BLOCK_BYTES // np.dtype(self._dtype).itemsize):
            memory = np.zeros(ROOM * sum(numbers[name] for name in names), dtype=self._dtype)
            yield from _views(memory, {name: shapes[name] for name in names})

    def _shapes(self, slots: int, capacity: int) -> dict[str, tuple[int, ...]]:
        return {name: (slots, kv_heads, capacity, head_dim) for name, (kv_heads, head_dim) in self._rows.items()}


def _views(memory: Array, shapes: Mapping[str, tuple[int, ...]]) -> Iterator[tuple[str, Array]]:
    """Give tensors that lie in a block of memory one after the other."""
    end = 0
    for name, shape in shapes.items():
        start, end = end, end + math.prod(shape)
        yield name, memory[start:end].reshape(shape)


def _blocks(numbers: Mapping[str, int], most: int) -> list[list[str]]:
    """Return the names in order, in lists whose numbers add up to at most `most`, or that hold one name."""
    blocks: list[list[str]] = []
    total = most
    for name, number in numbers.items():
        total += number
        if total > most or not blocks:
            blocks.append([])
            total = number
        blocks[-1].append(name)
    return blocks
