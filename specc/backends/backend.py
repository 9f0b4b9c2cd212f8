"""What a back end is: it turns lowered graphs into engines and says with which libraries."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from specc.bundle.manifest import EngineSpec
from specc.lower.lowered import Lowered
from specc.lower.place import Place
from specc.plan.plan import Plan
from specc.progress import Progress


class Backend(Protocol):
    """A builder of engines. Planning decided whether a plan is legal for it, from `catalog/capabilities.py`."""

    def toolchain(self) -> dict[str, str]:
        """Return the versions of the libraries that shape its engines: part of the build key and of the manifest.

        Raises:
            SpeccError: SPC501 the library is not installed, with the extra that brings it.
        """

    def engines_from_lowered(
        self, lowered: Lowered, plan: Plan, folder: Path, place: Place, progress: Progress
    ) -> tuple[EngineSpec, ...]:
        """Build the engines into `folder` (empty, exists) and return their specs; `file` is relative to `folder`.

        `place` puts a file of the lowered graphs into `folder` where an engine consists of such files.

        Raises:
            SpeccError: the library refused the graph.
        """
