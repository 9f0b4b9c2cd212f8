"""What executes a target engine: it owns the caches; the scheduler owns everything else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from specc.bundle.manifest import EngineSpec

Array: TypeAlias = npt.NDArray[Any]
Arrays: TypeAlias = dict[str, Array]

DTYPES: Final[dict[str, type[np.generic]]] = {
    "f32": np.float32,
    "f16": np.float16,
    "i64": np.int64,
    "i32": np.int32,
    "i8": np.int8,
    "bool": np.bool_,
}
"""NumPy's type of each dtype of a manifest that host memory holds."""


class TargetRunner(Protocol):
    """A loaded target engine with caches for a number of slots; a call takes a contiguous range of them as its rows."""

    @property
    def spec(self) -> EngineSpec:
        """The engine's tensors and shapes."""

    def reserve(self, slots: int, length: int) -> None:
        """Make room for `slots` rows of at least `length` cache rows each, keeping what the caches hold.

        Capacity follows the real length in the engine's buckets; it never shrinks below what is in use, and a slot uses
        `past_lengths + num_tokens` of its last call. Slots from `slots` on are free.
        """

    def step(self, first_slot: int, inputs: Arrays) -> Arrays:
        """Run one call whose row b is slot first_slot + b.

        Args:
            first_slot: slot of row 0.
            inputs: every non-cache input of `spec`, of the dtypes the ABI states; `input_ids` [B,S] gives B and S.

        Returns:
            Every non-cache output by name, owned by the caller.
        """

    def close(self) -> None:
        """Free the engine and its caches."""


@dataclass(frozen=True)
class Companions:
    """The runners that a runner works beside.

    Attributes:
        caches_of: whose caches it shares, as early calls of a target, an unrolled draft, and an engine that drafts and
            verifies in one call do; None gives it its own.
        draft_caches_of: whose caches are the draft's in an engine of the variant `whole`.
        stream_of: after whose calls its own stand, on devices that work through a stream of them; None: after none.
    """

    caches_of: TargetRunner | None = None
    draft_caches_of: TargetRunner | None = None
    stream_of: TargetRunner | None = None


NO_COMPANIONS: Final = Companions()


def neutral_inputs(spec: EngineSpec, rows: int, given: Arrays) -> Arrays:
    """Return `given` completed with the neutral fill of the engine's other optional inputs.

    B is `rows`; S and R are those of `input_ids` and `logit_rows`; a dimension of any other name is 1.
    """
    missing = [tensor for tensor in spec.plain_inputs if tensor.name not in given and tensor.neutral is not None]
    if not missing:
        return given
    sizes = {"B": rows} | {
        name: given[tensor].shape[1] for name, tensor in (("S", "input_ids"), ("R", "logit_rows")) if tensor in given
    }
    return given | {
        tensor.name: np.full(
            tuple(size if isinstance(size, int) else sizes.get(size, 1) for size in tensor.shape),
            tensor.neutral,
            dtype=DTYPES[tensor.dtype],
        )
        for tensor in missing
    }
