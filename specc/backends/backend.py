"""What a back end is: it turns lowered graphs into engines, or a source checkpoint into one that others serve."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from specc.backends.aids import NO_AIDS, BuildAids
from specc.bundle.manifest import CheckpointSpec, EngineSpec
from specc.catalog.weight_formats import WeightFormat
from specc.checkpoint.head_folder import HeadFolder
from specc.checkpoint.source import SourceCheckpoint
from specc.lower.lowered import Lowered
from specc.lower.place import Place
from specc.plan.plan import Plan
from specc.progress import Progress
from specc.quantize.quantized import QuantizedWeight


class Backend(Protocol):
    """What every back end has. Planning decided whether a plan is legal for it, from `catalog/capabilities.py`."""

    def toolchain(self) -> dict[str, str]:
        """Return the versions of the libraries that shape its results: part of the build key and of the manifest.

        Raises:
            SpeccError: SPC501 the library is not installed, with the extra that brings it.
        """


class EngineBackend(Backend, Protocol):
    """A builder of engines over graphs of specc's own."""

    def missing(self, plan: Plan) -> tuple[str, ...]:
        """Return what this machine lacks to build the engines of a plan, in words; nothing where it lacks nothing."""

    def here(self) -> dict[str, str]:
        """Return what of this machine shapes the engines; nothing where they are the same wherever they are built."""

    def engines_from_lowered(
        self,
        lowered: Lowered,
        plan: Plan,
        folder: Path,
        place: Place,
        progress: Progress,
        *,
        aids: BuildAids = NO_AIDS,
    ) -> tuple[EngineSpec, ...]:
        """Build the engines into `folder` (empty, exists) and return their specs; `file` is relative to `folder`.

        `place` puts a file of the lowered graphs into `folder` where an engine consists of such files.

        Raises:
            SpeccError: the library refused the graph.
        """


@dataclass(frozen=True)
class CheckpointPart:
    """A file of a checkpoint that is made, kept and resumed by itself.

    Attributes:
        file: its name in the checkpoint.
        nbytes: about what it takes on the disk.
    """

    file: str
    nbytes: int


@dataclass(frozen=True)
class Calibrated:
    """What texts showed of a source.

    Attributes:
        source: the checkpoint, with factors of channels folded into its tensors where the method has some.
        quantized: returns the matrix of a canonical name of `source` in a format, where the method looks at inputs.
        largest: returns the largest magnitude of what goes into a layer, by its weight's name, or into a cache, by its.
    """

    source: SourceCheckpoint
    quantized: Callable[[str, WeightFormat], QuantizedWeight]
    largest: Callable[[str], float]


class CheckpointBackend(Backend, Protocol):
    """A writer of checkpoints that another program loads; `plan` is of one model, target or draft."""

    def parts(self, plan: Plan, source: SourceCheckpoint) -> tuple[CheckpointPart, ...]:
        """Return the big files of the checkpoint, in order; none where it only links the source's."""

    def write_part(
        self,
        part: CheckpointPart,
        plan: Plan,
        source: SourceCheckpoint,
        folder: Path,
        *,
        calibrated: Calibrated | None,
        progress: Progress,
    ) -> None:
        """Write one of these files into `folder`; `calibrated` is None where the plan is not calibrated.

        Raises:
            SpeccError: SPC404 a value does not fit float16; SPC2nn the source changed or is damaged.
        """

    def write_rest(self, plan: Plan, source: SourceCheckpoint, folder: Path, place: Place) -> CheckpointSpec:
        """Write or place all other files into `folder` and return what the checkpoint is."""

    def place_head(self, plan: Plan, head: HeadFolder, folder: Path, place: Place) -> CheckpointSpec:
        """Place the files of a drafter's head into `folder` and return what it is; `plan` is the target's."""

    def write_outline(self, plan: Plan, source: SourceCheckpoint, folder: Path) -> None:
        """Fill a folder with all that follows from the plan: configuration, and headers of files with nothing in them.

        No weight is read, and the files of weights take no room on the disk.
        """

    def write_head_outline(self, head: HeadFolder, folder: Path) -> None:
        """Write which files of a head would be placed into `folder`."""

    def write_serving(self, plan: Plan, folder: Path) -> None:
        """Write what the other program is started with into `folder` (empty, exists); `plan` is the target's."""
