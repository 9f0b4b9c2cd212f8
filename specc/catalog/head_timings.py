"""What the head costs on a GPU, as a product with partials behind it and as one kernel: measured, where a GPU was lent.

`scripts/gpu_check.py` is where such numbers come from: what it measures is remembered for plans of that machine
(`specc/probe/heads.py`), and can become rows here. While there are none, the rule of `specc/plan/head.py` decides.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from specc.catalog.capabilities import ComputeDtype

NEAREST: Final = 2.0
"""A timing speaks for up to twice as many rows as it was taken with, and for half as many."""


@dataclass(frozen=True)
class HeadTiming:
    """One measurement, in microseconds.

    Attributes:
        compute_capability: SM as `9.0`.
        dtype: of hidden states and head.
        hidden_size: H.
        vocab_size: ids of the head.
        rows: logit rows of a call, of all sequences.
        native: the library's product and the kernel of partials, one after the other.
        fused: the one kernel in their place.
        source: card, date, number of runs.
    """

    compute_capability: str
    dtype: ComputeDtype
    hidden_size: int
    vocab_size: int
    rows: int
    native: float
    fused: float
    source: str


HEAD_TIMINGS: Final[tuple[HeadTiming, ...]] = ()
"""None yet: no kernel has run on a GPU."""


def head_timing(
    timings: tuple[HeadTiming, ...], compute_capability: str, dtype: ComputeDtype, *, hidden_size: int, rows: int
) -> HeadTiming | None:
    """Return the timing with the nearest number of rows of this GPU, dtype and hidden size; None where none is near."""
    same = [
        timing
        for timing in timings
        if (timing.compute_capability, timing.dtype, timing.hidden_size) == (compute_capability, dtype, hidden_size)
    ]
    nearest = min(same, key=lambda timing: abs(math.log(timing.rows / rows)), default=None)
    return nearest if nearest is not None and 1 / NEAREST <= nearest.rows / rows <= NEAREST else None
