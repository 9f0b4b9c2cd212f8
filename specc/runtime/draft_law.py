"""The distributions that drafts were drawn from, as rejection sampling needs them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Int64Array: TypeAlias = npt.NDArray[np.int64]
Float32Array: TypeAlias = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class DraftLaw:
    """The distribution of each of n drafts, as its support.

    Attributes:
        ids: int64 [n, Kq], -1 where there is none.
        probs: float32 [n, Kq], 0 there.
    """

    ids: Int64Array
    probs: Float32Array

    def cut(self, count: int) -> DraftLaw:
        """Return the distributions of the first `count` drafts."""
        return DraftLaw(self.ids[:count], self.probs[:count])
