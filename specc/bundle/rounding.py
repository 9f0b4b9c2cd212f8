"""How far the matrices of a model moved when they were rounded: measured while building, a file beside the engines."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from specc.bundle.manifest import Manifest
from specc.bundle.record import record_from_file


@dataclass(frozen=True)
class RoundedMatrices:
    """Matrices of one class that were rounded alike.

    Attributes:
        weights: their class: `attention`, `mlp`, `experts`, `embedding` or `head`.
        stored: how the checkpoint stores them.
        format: what they were rounded to, in words.
        count: of the matrices.
        error: root of the squared differences over that of the squared numbers of the checkpoint, of all together.
        worst: the matrix with the largest such error of its own.
        worst_error: its error.
    """

    weights: str
    stored: str
    format: str
    count: int
    error: float
    worst: str
    worst_error: float

    @property
    def text(self) -> str:
        """The row as a sentence's end."""
        return (
            f"{self.count} matrices of {self.weights} from {self.stored} to {self.format}, error {self.error:.2%} of "
            f"the weights' size; the largest, {self.worst_error:.2%}, in {self.worst}"
        )


@dataclass(frozen=True)
class Rounding:
    """The whole of rounding.json; matrices that keep the checkpoint's codes are not in it."""

    rounded: tuple[RoundedMatrices, ...]


def rounding_file(role: str) -> str:
    """Return the file's name beside the engines of a model, which other models lie beside."""
    return f"{role}.rounding.json"


def rounding_of_bundle(bundle: Path, manifest: Manifest) -> dict[str, Rounding]:
    """Return what was rounded, by the role of the model; nothing where all matrices are as the checkpoint has them.

    Raises:
        SpeccError: SPC602 a file does not have its form.
    """
    found = {}
    for role in ("target", "draft"):
        for name in manifest.files:
            if name.rsplit("/", 1)[-1] == rounding_file(role):
                found[role] = record_from_file(Rounding, bundle / name)
    return found
