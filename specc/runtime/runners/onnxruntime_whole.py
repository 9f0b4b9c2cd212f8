"""The runner of ONNX engines that draft and verify in one call, over the caches of the target's and draft's runners."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from specc.bundle.manifest import DRAFT_PREFIX, EngineSpec
from specc.runtime.runners.onnxruntime import OnnxRuntimeRunner, new_session
from specc.runtime.runners.onnxruntime_binding import CacheBinding, KeptBindings, bound_caches, check_room
from specc.runtime.runners.runner import Arrays


class OnnxRuntimeWholeRunner:
    """A loaded engine of the variant `whole`.

    Args:
        spec: the engine.
        session: the vendor's session.
        target, draft: runners that own the caches.
    """

    def __init__(
        self,
        spec: EngineSpec,
        session: Any,  # noqa: ANN401 - a vendor class
        target: OnnxRuntimeRunner,
        draft: OnnxRuntimeRunner,
    ) -> None:
        self._spec = spec
        self._session = session
        self._target, self._draft = target, draft
        self._bindings = KeptBindings()

    @property
    def spec(self) -> EngineSpec:
        """The engine's tensors and shapes."""
        return self._spec

    def reserve(self, slots: int, length: int) -> None:
        """Make room for `slots` rows of at least `length` cache rows each, in both sets of caches."""
        self._target.reserve(slots, length)
        self._draft.reserve(slots, length)

    def step(self, first_slot: int, inputs: Arrays) -> Arrays:
        """Run one call whose row b is slot first_slot + b.

        Raises:
            SpeccBug: a row would be written beyond a capacity, a slot does not exist, an input is missing or of another
                dtype or shape than the spec says, or the engine did not write its caches in place.
        """
        batch, tokens = inputs["input_ids"].shape
        target, draft, steps = self._target.caches, self._draft.caches, self._spec.steps
        written = steps + 1 + self._target.spec.spare_rows
        check_room(target.slots, target.capacity, first_slot, inputs["past_lengths"], written)
        check_room(draft.slots, draft.capacity, first_slot, inputs["draft_past_lengths"], tokens + steps - 1)
        bound = self._bound(first_slot, batch)
        outputs = bound.run(self._session, self._spec, inputs, {"B": batch, "S": tokens})
        slots = slice(first_slot, first_slot + batch)
        fed = inputs["num_tokens"]
        target.used[slots] = inputs["past_lengths"] + (fed > 0) * (inputs["num_draft"] + 1)
        draft.used[slots] = inputs["draft_past_lengths"] + fed + (fed > 0) * (steps - 1)
        return outputs

    def close(self) -> None:
        """Free the session; the caches are their owners'."""
        self._bindings.clear()
        self._session = None

    def _bound(self, first_slot: int, rows: int) -> CacheBinding:
        target, draft = self._target.caches, self._draft.caches

        def made() -> CacheBinding:
            arrays = target.arrays | {f"{DRAFT_PREFIX}{name}": array for name, array in draft.arrays.items()}
            return bound_caches(self._session, self._spec, arrays, first_slot, rows)

        return self._bindings.kept((first_slot, rows, target.moves, draft.moves), made)


def onnxruntime_whole_runner(
    bundle: Path, spec: EngineSpec, *, threads: int | None, target: OnnxRuntimeRunner, draft: OnnxRuntimeRunner
) -> OnnxRuntimeWholeRunner:
    """Load an engine of the variant `whole`.

    Args:
        bundle: folder that `spec.file` is relative to.
        spec: the engine.
        threads: of one operator; None lets ONNX Runtime take the cores it finds.
        target: the target's runner, whose caches it reads and writes.
        draft: the draft's runner, likewise.

    Raises:
        SpeccError: SPC740 ONNX Runtime is not installed, SPC741 it cannot load the file.
    """
    return OnnxRuntimeWholeRunner(spec, new_session(bundle, spec, threads), target, draft)
