"""Where the small tensors of one call lie in one block of memory, so that a call costs one copy in and one copy out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from specc.bundle.manifest import Dimension, TensorDtype, TensorSpec
from specc.runtime.runners.runner import DTYPES, Array, Arrays
from specc.runtime.runners.tensorrt_library import Bytes

# What CUDA's own allocator aligns to; kernels may assume it of every tensor.
ALIGNMENT: Final = 256

ITEM_BYTES: Final[dict[TensorDtype, int]] = {"f32": 4, "f16": 2, "bf16": 2, "i64": 8, "i32": 4, "i8": 1, "bool": 1}


@dataclass(frozen=True)
class Place:
    """One tensor: its first byte in the block, its type and its shape in this call."""

    name: str
    offset: int
    dtype: np.dtype[np.generic]
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of the tensor."""
        return int(np.prod(self.shape)) * self.dtype.itemsize

    def view(self, block: Bytes) -> Array:
        """Return the tensor as an array over the block's memory."""
        return block[self.offset : self.offset + self.nbytes].view(self.dtype).reshape(self.shape)


@dataclass(frozen=True)
class Layout:
    """Places in order, none overlapping another, and the bytes of the whole block."""

    places: tuple[Place, ...]
    nbytes: int

    def views(self, block: Bytes) -> Arrays:
        """Return every tensor by name, over the block's memory."""
        return {place.name: place.view(block) for place in self.places}


def shape_from_dimensions(shape: tuple[Dimension, ...], sizes: dict[str, int]) -> tuple[int, ...]:
    """Return a shape with its named dimensions (B, S, R) replaced by their sizes in this call."""
    return tuple(sizes[dimension] if isinstance(dimension, str) else dimension for dimension in shape)


def layout_from_tensors(tensors: Iterable[TensorSpec], sizes: dict[str, int]) -> Layout:
    """Lay the tensors out one after the other, each at a multiple of ALIGNMENT.

    Args:
        tensors: none of them a cache; their dtype must be one that NumPy has.
        sizes: of the dimensions B, S and R.
    """
    places = []
    offset = 0
    for tensor in tensors:
        place = Place(tensor.name, offset, np.dtype(DTYPES[tensor.dtype]), shape_from_dimensions(tensor.shape, sizes))
        places.append(place)
        offset += -(-max(place.nbytes, 1) // ALIGNMENT) * ALIGNMENT
    return Layout(tuple(places), offset)
