"""Writing of quantized matrices: one at a time from the source, quantized as the Plan says, packed for the back end."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from specc.bundle.record import text_from_record
from specc.catalog.weight_formats import CALIBRATED_METHODS
from specc.checkpoint.source import SourceCheckpoint
from specc.errors import SpeccBug
from specc.graph.builder import WeightDtype
from specc.lower.rounding_errors import RoundingErrors
from specc.lower.safetensors_file import DTYPE_NAMES, FileTensor, write_safetensors
from specc.lower.stored_weights import QUANTIZED_FILE, StoredWeight, refused_by_disk
from specc.lower.weight_parts import WeightPart, parts_of_weight
from specc.plan.plan import WeightRow
from specc.progress import Progress
from specc.quantize.quantized import QuantizedWeight, stacked
from specc.quantize.quantized_from_float import quantized_from_float
from specc.quantize.same_matrix import means_the_same, same_matrix
from specc.quantize.scale_search import RoundingMethod

ROUNDING_FILE: Final = "rounding.json"
FOUR_BITS: Final[tuple[WeightDtype, ...]] = ("i4", "f4e2m1")


@dataclass(frozen=True)
class QuantizedMatrix:
    """A weight [N, K], or several that are stored as one, and how each is quantized.

    Attributes:
        name: canonical, or of `joined_names`.
        members: canonical names of the matrices whose rows it has, in order.
        shape: of all.
        row: of each.
    """

    name: str
    members: tuple[str, ...]
    shape: tuple[int, int]
    row: WeightRow

    def parts(self, backend: str) -> tuple[WeightPart, ...]:
        """Return what it becomes for a back end."""
        if self.row.format is None:
            raise SpeccBug(f"{self.name} is a float")
        return parts_of_weight(backend, self.shape, self.row.format)


Quantize: TypeAlias = Callable[[SourceCheckpoint, str, WeightRow], QuantizedWeight]
"""Quantizes the weight of a canonical name as its row says."""


def kept_or_rounded(source: SourceCheckpoint, name: str, row: WeightRow) -> QuantizedWeight:
    """Return a matrix as the checkpoint stores it where the row's format holds that exactly, else rounded.

    Args:
        source: opened checkpoint.
        name: of the weight.
        row: of the plan; its method looks at weights alone.
    """
    if row.format is None or row.method in CALIBRATED_METHODS:
        raise SpeccBug(f"{name} is a float, or is to be quantized by {row.method}")
    if keeps_codes(source, name, row):
        return same_matrix(source.read_quantized(name), row.format)
    method: RoundingMethod = "rtn" if row.method == "rtn" else "mse"
    return quantized_from_float(source.read_float32(name), row.format, method)


def keeps_codes(source: SourceCheckpoint, name: str, row: WeightRow) -> bool:
    """Return whether a matrix is stored as its row of the plan wants it, so that nothing of it is rounded again."""
    stored = source.quantized_formats.get(name)
    calibrated = row.method in CALIBRATED_METHODS
    return stored is not None and row.format is not None and not calibrated and means_the_same(stored, row.format)


class _Last:
    """The matrix quantized last: its parts lie side by side in the file, and it is quantized once for all of them."""

    def __init__(self, source: SourceCheckpoint, quantize: Quantize) -> None:
        self.errors = RoundingErrors()
        self._source = source
        self._quantize = quantize
        self._matrix: QuantizedMatrix | None = None
        self._weight: QuantizedWeight | None = None

    def quantized(self, matrix: QuantizedMatrix) -> QuantizedWeight:
        """Return it, the rows of its members one after the other."""
        if self._weight is None or self._matrix != matrix:
            self._weight = stacked([self._rounded(name, matrix.row) for name in matrix.members])
            self._matrix = matrix
        return self._weight

    def _rounded(self, name: str, row: WeightRow) -> QuantizedWeight:
        quantized = self._quantize(self._source, name, row)
        if not keeps_codes(self._source, name, row):
            stored = self._source.headers[name].encoding
            self.errors.add(name, stored, self._source.read_float32(name), quantized)
        return quantized


def quantized_weights(
    source: SourceCheckpoint,
    matrices: tuple[QuantizedMatrix, ...],
    backend: str,
    folder: Path,
    progress: Progress,
    *,
    quantize: Quantize,
) -> dict[str, StoredWeight]:
    """Write the quantized matrices and return where each of their parts lies, by the part's name.

    Beside them stands how far those moved that were rounded (`rounding.json`). Memory holds one matrix at a time as
    floats, and the codes of those stored as one.

    Args:
        source: opened checkpoint; shapes were checked.
        matrices: what to quantize, and how.
        backend: whose layout.
        folder: receives `quantized.safetensors`; nothing where there are no matrices.
        progress: told the bytes written.
        quantize: chooses the codes of one matrix.

    Raises:
        SpeccError: SPC403 the disk refuses.
    """
    last = _Last(source, quantize)
    parts = {f"{m.name}.{part.suffix}": (m, part) for m in matrices for part in m.parts(backend)}
    if not parts:
        return {}
    entries = [_entry(name, matrix, part, last) for name, (matrix, part) in parts.items()]
    try:
        offsets = write_safetensors(folder / QUANTIZED_FILE, entries, progress)
    except OSError as error:
        raise refused_by_disk(folder, error) from error
    (folder / ROUNDING_FILE).write_text(text_from_record(last.errors.listed()), encoding="utf-8")
    return {
        name: StoredWeight(QUANTIZED_FILE, offsets[name], _nbytes(part), part.dtype, part.shape)
        for name, (_, part) in parts.items()
    }


def quantized_bytes(matrices: tuple[QuantizedMatrix, ...], backend: str) -> int:
    """Return the bytes that `quantized_weights` will write."""
    return sum(_nbytes(part) for matrix in matrices for part in matrix.parts(backend))


def _nbytes(part: WeightPart) -> int:
    count = math.prod(part.shape)
    return -(-count // 2) if part.dtype in FOUR_BITS else count * DTYPE_NAMES[part.dtype][1]


def _entry(name: str, matrix: QuantizedMatrix, part: WeightPart, last: _Last) -> FileTensor:
    packed = part.dtype in FOUR_BITS
    dtype, shape = ("u8", (_nbytes(part),)) if packed else (part.dtype, part.shape)
    return FileTensor(name, dtype, shape, lambda: part.content(last.quantized(matrix)), matrix.name)
