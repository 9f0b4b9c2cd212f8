"""Statistics on disk: a safetensors file for each tap, and a list of the weights each feeds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from specc.bundle.record import record_from_file, text_from_record
from specc.checkpoint.plain_tensor import float32_from_plain
from specc.checkpoint.safetensors_header import headers_from_safetensors
from specc.lower.safetensors_file import FileTensor, write_safetensors
from specc.lower.tapped import Tapped
from specc.progress import silent
from specc.quantize.elements import Float32Array
from specc.quantize.statistics import ActivationStatistics

LIST_FILE: Final = "statistics.json"


@dataclass(frozen=True)
class StatisticsList:
    """The whole of statistics.json.

    Attributes:
        tokens: that were read.
        files: names of files, with the canonical names of the weights that each is of the inputs of.
    """

    tokens: int
    files: dict[str, tuple[str, ...]]


class StatisticsFolder:
    """Statistics as `write_statistics` left them; those of one input are read at a time.

    Args:
        folder: of the files.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        found = record_from_file(StatisticsList, folder / LIST_FILE)
        self._tokens = found.tokens
        self._files = {name: file for file, names in found.files.items() for name in names}

    def of_weight(self, name: str) -> ActivationStatistics | None:
        """Return the statistics of the inputs of a weight; None where it was not tapped, as experts are not."""
        if name not in self._files:
            return None
        headers = headers_from_safetensors(self._folder / self._files[name])
        parts = {part: float32_from_plain(header) for part, header in headers.items()}
        hessian = parts.get("hessian")
        return ActivationStatistics(self._tokens, parts["mean_abs"], parts["max_abs"], parts["mean_square"], hessian)

    def inputs_of(self, name: str) -> str:
        """Return what names the inputs of a tapped weight: those of equal name have the same statistics."""
        return self._files[name]


def write_statistics(
    folder: Path, tapped: Tapped, found: Iterable[tuple[str, ActivationStatistics]], *, tokens: int
) -> None:
    """Write statistics as they come: memory holds those of one input.

    Args:
        folder: empty, exists.
        tapped: which weights each tap feeds.
        found: the statistics of each tap.
        tokens: that they are of.
    """
    files = {}
    for index, (tap, statistics) in enumerate(found):
        file = f"inputs-{index}.safetensors"
        parts = {
            "mean_abs": statistics.mean_abs,
            "max_abs": statistics.max_abs,
            "mean_square": statistics.mean_square,
        }
        if statistics.hessian is not None:
            parts["hessian"] = statistics.hessian
        write_safetensors(folder / file, [_entry(name, array) for name, array in parts.items()], silent)
        files[file] = tapped.taps[tap]
    (folder / LIST_FILE).write_text(text_from_record(StatisticsList(tokens, files)), encoding="utf-8")


def _entry(name: str, array: Float32Array) -> FileTensor:
    return FileTensor(name, "f32", array.shape, array.tobytes)
