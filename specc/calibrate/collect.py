"""Statistics of the inputs of linear layers: the tapped graph reads texts, and its outputs are summed up."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from specc.bundle.manifest import TensorSpec
from specc.lower.tapped import Tapped
from specc.progress import Progress
from specc.quantize.statistics import ActivationStatistics, StatisticsSum

Int64Array: TypeAlias = npt.NDArray[np.int64]

OUTPUT_BYTES: Final = 256 << 20
"""Most bytes of taps that one call returns: longer texts are read in parts, each from an empty cache."""
HESSIAN_BYTES: Final = 1 << 30
"""Most bytes of Hessians in memory: with more, the texts are read again for the next taps."""


def statistics_of_taps(
    tapped: Tapped, ids: Sequence[Int64Array], *, hessian: bool, progress: Progress
) -> Iterator[tuple[str, ActivationStatistics]]:
    """Yield the statistics of each tap; memory holds the Hessians of some taps at a time.

    Args:
        tapped: the graph.
        ids: token ids of the texts, int64 [T] each, none empty.
        hessian: whether Hessians are summed, too.
        progress: told the tokens read.
    """
    session = _session(tapped)
    groups = _groups(tapped.widths, HESSIAN_BYTES if hessian else math.inf)
    most = min(tapped.length, max(16, OUTPUT_BYTES // (4 * max(1, sum(tapped.widths.values())))))
    batches = list(_batches(_parts(ids, most), most))
    total, read = len(groups) * sum(map(len, ids)), 0
    for group in groups:
        sums = {tap: StatisticsSum(tapped.widths[tap], hessian=hessian) for tap in group}
        for batch in batches:
            outputs = [session.run(list(group), _feeds(tapped.inputs, part)) for part in batch]
            for index, tap in enumerate(group):
                sums[tap].add(np.concatenate([output[index][0] for output in outputs]))
            read += sum(map(len, batch))
            progress("calibrate", read, total)
        for tap in group:
            yield tap, sums.pop(tap).statistics()


def _session(tapped: Tapped) -> Any:  # noqa: ANN401 - a vendor class
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    # Weights stay mapped from their files: transposed and packed copies would fill memory with the whole model.
    options.add_session_config_entry("session.disable_prepacking", "1")
    return onnxruntime.InferenceSession(
        str(tapped.path), options, providers=["CPUExecutionProvider"], disabled_optimizers=["ConstantFolding"]
    )


def _groups(widths: Mapping[str, int], most: float) -> list[tuple[str, ...]]:
    """Return the taps in groups whose Hessians have at most so many bytes; one tap is always possible."""
    groups: list[list[str]] = [[]]
    room = most
    for tap, width in widths.items():
        needs = 4 * width * width
        if groups[-1] and needs > room:
            groups.append([])
            room = most
        groups[-1].append(tap)
        room -= needs
    return [tuple(group) for group in groups if group]


def _parts(ids: Sequence[Int64Array], most: int) -> Iterator[Int64Array]:
    for text in ids:
        for start in range(0, len(text), most):
            yield text[start : start + most]


def _batches(parts: Iterator[Int64Array], most: int) -> Iterator[list[Int64Array]]:
    """Yield neighbours that have so many tokens at most together: a few large products add them up, not many small."""
    batch: list[Int64Array] = []
    for part in parts:
        if batch and sum(map(len, batch)) + len(part) > most:
            yield batch
            batch = []
        batch.append(part)
    if batch:
        yield batch


def _feeds(inputs: tuple[TensorSpec, ...], ids: Int64Array) -> dict[str, npt.NDArray[Any]]:
    """Return one row of new tokens over empty caches that have just the room for them."""
    feeds: dict[str, npt.NDArray[Any]] = {}
    for spec in inputs:
        if spec.name == "input_ids":
            feeds[spec.name] = ids[np.newaxis]
        elif spec.dtype == "i64":
            feeds[spec.name] = np.zeros(1, np.int64)
        else:
            sizes: dict[str, int] = {"B": 1, "C": len(ids)}
            feeds[spec.name] = np.zeros(
                [size if isinstance(size, int) else sizes[size] for size in spec.shape], np.float32
            )
    return feeds
