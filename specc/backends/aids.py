"""What a builder finds beside its input: kernels that were compiled ahead, and the timings of earlier builds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from specc.bundle.digests import key_from_parts
from specc.bundle.growing import GrowingFile
from specc.bundle.store import Store
from specc.errors import SpeccError
from specc.lower.use_verify_plugin import logits_read
from specc.plan.plan import Plan
from specc.plugin.bundle import KernelBundle
from specc.plugin.bundle_from_source import found_kernels, kernels_in_store
from specc.plugin.variants import KernelVariant, variants_of_chain
from specc.progress import Progress


@dataclass(frozen=True)
class KernelsInUse:
    """The compiled kernels of one build.

    Attributes:
        folder: with a folder for each GPU.
        compute_capability: of the GPU that they are for.
        digest: of the kernels that the build uses, whatever else lies there.
    """

    folder: Path
    compute_capability: str
    digest: str


class Timings:
    """The timings of a library's kernels on one kind of GPU, which each build reads and adds to.

    Args:
        file: their versions.
        pinned: digest of the version that a lock file names; None takes the newest.
    """

    def __init__(self, file: GrowingFile, pinned: str | None) -> None:
        self._file = file
        self._pinned = pinned
        self.digest = pinned or ""

    def load(self) -> bytes:
        """Return the timings to begin with; nothing where no build came before.

        Raises:
            SpeccError: SPC613 the store lacks those that the lock file names.
        """
        if self._pinned is None:
            return self._file.newest() or b""
        content = self._file.version(self._pinned)
        if content is None:
            raise SpeccError(
                "SPC613",
                "--locked",
                f"the store holds no timing cache of digest {self._pinned[:12]}",
                "the builder chooses kernels by these timings; with others it would build another engine",
                "copy the store (SPECC_CACHE) of the machine that built, or build without --locked",
            )
        return content

    def keep(self, merged: Callable[[bytes | None], bytes]) -> None:
        """Add a version; `digest` then names it, or still the one that the lock file names."""
        made = self._file.grow(merged)
        if self._pinned is None:
            self.digest = made


@dataclass(frozen=True)
class BuildAids:
    """Both; None where the back end has no use for them."""

    kernels: KernelsInUse | None
    timings: Timings | None


NO_AIDS: Final = BuildAids(None, None)


def kernels_for_plan(plan: Plan, given: Path | None, store: Store, progress: Progress) -> KernelsInUse | None:
    """Return the kernels that verify in the engines of a plan, compiling what is nowhere yet.

    Args:
        plan: of the target.
        given: a folder that `specc kernels build` made; None looks into the store.
        store: keeps what is compiled.
        progress: told the kernels compiled.

    Returns:
        None where native operators verify.

    Raises:
        SpeccError: SPC530 there are none for the GPU, SPC531 the folder is not whole, SPC532 no compiler is here.
    """
    variants = variants_of_plan(plan)
    if not variants:
        return None
    capability = plan.backend.compute_capabilities[0]  # of several, PTX for the lowest runs on all
    folder = given or found_kernels(capability, store) or kernels_in_store(capability, variants, store, progress)
    return KernelsInUse(folder, capability, KernelBundle(folder, capability).digest(variants))


def variants_of_plan(plan: Plan) -> tuple[KernelVariant, ...]:
    """Return the compiled kernels that the engines of a plan hold; none where native operators verify."""
    graph, facts = plan.graph, plan.target.facts
    if graph.verification == "native":
        return ()
    if graph.head == "fused":
        return variants_of_chain(graph.acceptance, graph.compute_dtype, facts.hidden_size, graph.head)
    return variants_of_chain(graph.acceptance, *logits_read(facts, graph))


def timings_of_machine(store: Store, here: Mapping[str, str], pinned: str | None) -> Timings | None:
    """Return the timings for a machine; None for a builder that times nothing.

    Args:
        store: keeps them.
        here: the GPU and the library's version, see `EngineBackend.here`.
        pinned: digest that a lock file names.
    """
    if not here:
        return None
    label = key_from_parts({"timings": dict(here)})
    return Timings(GrowingFile(store, label, f"timing cache of {', '.join(here.values())}"), pinned)
