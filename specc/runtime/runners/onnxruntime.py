"""The runner of ONNX engines: ONNX Runtime's CPU provider over caches that are written in place."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path
from typing import Any, Final

from specc.bundle.manifest import EngineSpec
from specc.errors import SpeccError
from specc.runtime.runners.caches import HostCaches
from specc.runtime.runners.huge_pages import huge_pages_under_new_memory
from specc.runtime.runners.onnxruntime_binding import CacheBinding, KeptBindings, bound_caches, check_room
from specc.runtime.runners.runner import Arrays

# Dimensions that only some engines have: where their size is read.
OTHER_SIZES: Final = (("R", "logit_rows", 1), ("Kq", "q_ids", 2))


class OnnxRuntimeRunner:
    """A loaded ONNX engine. Use `onnxruntime_runner` to make one.

    Attributes:
        session: the vendor's session; engines of the same file share it, and so hold their weights once.
    """

    def __init__(
        self,
        spec: EngineSpec,
        session: Any,  # noqa: ANN401 - a vendor class
        caches: HostCaches | None,
    ) -> None:
        self._spec = spec
        self.session = session
        self._owns_caches = caches is None
        self._caches = caches or HostCaches(spec)
        self._bindings = KeptBindings()

    @property
    def spec(self) -> EngineSpec:
        """The engine's tensors and shapes."""
        return self._spec

    @property
    def caches(self) -> HostCaches:
        """The caches; runners of other variants of the engine, or of its early calls, may share them."""
        return self._caches

    def reserve(self, slots: int, length: int) -> None:
        """Make room for `slots` rows of at least `length` cache rows each, keeping what the caches hold.

        A slot holds what its last call left, drafts included; a call whose row starts at 0 forgets what was before.
        """
        length += self._spec.spare_rows
        # Where the caches are another runner's, that runner decides how far they shrink.
        self._caches.reserve(slots, length if self._owns_caches else max(length, self._caches.capacity))

    def step(self, first_slot: int, inputs: Arrays) -> Arrays:
        """Run one call whose row b is slot first_slot + b.

        Raises:
            SpeccBug: a row would be written beyond the capacity, a slot does not exist, an input is missing or of
                another dtype or shape than the spec says, or the engine did not write its caches in place.
        """
        sizes = self._checked_sizes(first_slot, inputs)
        bound = self._bound(first_slot, sizes["B"])
        outputs = bound.run(self.session, self._spec, inputs, sizes)
        ends = inputs["past_lengths"] + inputs["num_tokens"] + (self._spec.steps - 1)
        self._caches.used[first_slot : first_slot + sizes["B"]] = ends
        return outputs

    def close(self) -> None:
        """Free the session, and the caches unless another runner shares them."""
        self._bindings.clear()
        self.session = None
        self._caches = HostCaches(self._spec)

    def _checked_sizes(self, first_slot: int, inputs: Arrays) -> dict[str, int]:
        rows, tokens = inputs["input_ids"].shape
        sizes = {"B": rows, "S": tokens}
        sizes |= {name: inputs[tensor].shape[axis] for name, tensor, axis in OTHER_SIZES if tensor in inputs}
        caches, written = self._caches, tokens + self._spec.steps - 1 + self._spec.spare_rows
        check_room(caches.slots, caches.capacity, first_slot, inputs["past_lengths"], written)
        return sizes

    def _bound(self, first_slot: int, rows: int) -> CacheBinding:
        return self._bindings.kept(
            (first_slot, rows, self._caches.moves),
            lambda: bound_caches(self.session, self._spec, self._caches.arrays, first_slot, rows),
        )


def onnxruntime_runner(
    bundle: Path, spec: EngineSpec, *, threads: int | None = None, caches_of: OnnxRuntimeRunner | None = None
) -> OnnxRuntimeRunner:
    """Load an ONNX engine of a bundle.

    Args:
        bundle: folder that `spec.file` is relative to; weights lie beside the engine's file.
        spec: the engine.
        threads: of one operator; None lets ONNX Runtime take the cores it finds.
        caches_of: a runner over another variant of the engine, or of the same file, whose session then serves both; its
            caches become this one's. None gives it its own.

    Raises:
        SpeccError: SPC740 ONNX Runtime is not installed, SPC741 it cannot load the file.
    """
    caches = None if caches_of is None else caches_of.caches
    if caches_of is not None and caches_of.spec.file == spec.file:
        return OnnxRuntimeRunner(spec, caches_of.session, caches)
    return OnnxRuntimeRunner(spec, new_session(bundle, spec, threads), caches)


def new_session(bundle: Path, spec: EngineSpec, threads: int | None) -> Any:  # noqa: ANN401 - a vendor class
    """Return the vendor's session over an engine's file.

    Raises:
        SpeccError: SPC740 ONNX Runtime is not installed, SPC741 it cannot load the file.
    """
    try:
        import onnxruntime
    except ImportError as error:
        raise SpeccError(
            "SPC740",
            str(bundle),
            "The package `onnxruntime` is not installed.",
            "The engines of this bundle are ONNX graphs, which it runs.",
            "pip install onnxruntime",
        ) from error
    path = bundle / spec.file
    with huge_pages_under_new_memory():
        try:
            session = onnxruntime.InferenceSession(path, _options(threads), providers=["CPUExecutionProvider"])
        except Exception as error:
            raise SpeccError(
                "SPC741",
                str(path),
                f"ONNX Runtime {onnxruntime.__version__} cannot load the engine: {error}",
                "Without its target engine a bundle generates nothing.",
                "Check the bundle with `specc inspect`, which names the version that built it: install that or a newer "
                "one; build it again if a file is missing or damaged.",
            ) from error
        _give_freed_memory_back()
    return session


def _give_freed_memory_back() -> None:
    """Return to the system what loading freed: the matrices as they were before they were packed, up to their size.

    glibc keeps freed memory between blocks in use, and nothing asks for so much of it again.
    """
    if sys.platform != "linux":
        return
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except AttributeError:  # another C library, which has no such call
        return


def _options(threads: int | None) -> Any:  # noqa: ANN401 - a vendor class
    import onnxruntime

    options = onnxruntime.SessionOptions()
    # Below this level it warns once a node and run whenever a cache is not bound in place.
    options.log_severity_level = 3
    if threads is not None:
        options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # Threads may spin between operators of a call, never between calls.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    return options
