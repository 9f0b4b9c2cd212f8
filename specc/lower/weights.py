"""The first half of lowering: a folder with the weights as external data, which graphs of any limits share."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from specc.bundle.record import record_from_file, text_from_record
from specc.catalog.schemes import PLAIN
from specc.checkpoint.source import SourceCheckpoint
from specc.lower.bind_weights import shapes_of_weights
from specc.lower.cache_scales import stored_cache_scales
from specc.lower.joined_names import member_names
from specc.lower.models import models_from_plan
from specc.lower.passes import join_weights
from specc.lower.place import Place
from specc.lower.quantized_weights import (
    Quantize,
    QuantizedMatrix,
    kept_or_rounded,
    quantized_bytes,
    quantized_weights,
)
from specc.lower.safetensors_file import DTYPE_NAMES
from specc.lower.stored_weights import StoredWeight, checked_header, split_headers, stored_weights
from specc.plan.plan import Plan
from specc.progress import Progress
from specc.quantize.elements import Float32Array

WEIGHTS_FILE: Final = "weights.json"
NOTHING_CACHED: Final[Mapping[str, Float32Array]] = {}


@dataclass(frozen=True)
class WeightList:
    """The whole of weights.json: where each weight lies, by canonical name."""

    weights: dict[str, StoredWeight]


def write_weights(
    plan: Plan,
    source: SourceCheckpoint,
    folder: Path,
    place: Place,
    progress: Progress,
    *,
    quantize: Quantize = kept_or_rounded,
    cached: Mapping[str, Float32Array] = NOTHING_CACHED,
) -> None:
    """Fill a folder with the files that hold the weights, and weights.json.

    Args:
        plan: decides model and dtype.
        source: the opened target checkpoint.
        folder: empty, exists.
        place: puts a source's file into the folder.
        progress: told the bytes written.
        quantize: chooses the codes of one matrix; a method that looks at activations needs one that has seen them.
        cached: of int8 caches, by canonical name: the largest magnitude that each channel is to hold.

    Raises:
        SpeccError: SPC401 to SPC404, see `stored_weights`.
    """
    plain, matrices = _plain_and_quantized(plan, source)
    dtype = plan.graph.compute_dtype
    stored = stored_weights(source, plain, dtype=dtype, folder=folder, place=place, progress=progress)
    stored |= quantized_weights(source, matrices, plan.backend.name, folder, progress, quantize=quantize)
    stored |= stored_cache_scales(cached, folder)
    if plan.graph.role == "draft":
        stored = _named_for_draft(stored, folder)
    (folder / WEIGHTS_FILE).write_text(text_from_record(WeightList(stored)), encoding="utf-8")


def weights_in_folder(folder: Path) -> dict[str, StoredWeight]:
    """Read what `write_weights` wrote."""
    return record_from_file(WeightList, folder / WEIGHTS_FILE).weights


def weight_bytes(plan: Plan, source: SourceCheckpoint) -> int:
    """Return the bytes that `write_weights` will write, what it only places left out.

    Raises:
        SpeccError: SPC401, SPC402.
    """
    plain, matrices = _plain_and_quantized(plan, source)
    _, rest = split_headers(source, plain)
    floats = sum(math.prod(header.shape) for header in rest.values()) * DTYPE_NAMES[plan.graph.compute_dtype][1]
    return floats + quantized_bytes(matrices, plan.backend.name)


def weights_stay(plan: Plan, source: SourceCheckpoint) -> bool:
    """Return whether lowering reads no weight: all of them serve as external data where they are, as they are."""
    dtype = plan.graph.compute_dtype
    return plan.target.scheme in PLAIN and all(
        header.plain and header.encoding in PLAIN and (dtype != "f16" or header.encoding == "f16")  # f16 has a range
        for header in source.headers.values()
    )


def _named_for_draft(stored: dict[str, StoredWeight], folder: Path) -> dict[str, StoredWeight]:
    """Put `draft.` before the names of the files: in a bundle they lie beside the target's."""
    for file in dict.fromkeys(weight.file for weight in stored.values()):
        (folder / file).rename(folder / f"draft.{file}")
    return {name: replace(weight, file=f"draft.{weight.file}") for name, weight in stored.items()}


def _plain_and_quantized(
    plan: Plan, source: SourceCheckpoint
) -> tuple[dict[str, tuple[int, ...]], tuple[QuantizedMatrix, ...]]:
    model = models_from_plan(plan)["main"]
    canonical = shapes_of_weights(model)
    join_weights(model, plan.graph, plan.backend.name)
    shapes, matrices = shapes_of_weights(model), []
    for name in list(shapes):
        members = member_names(name)
        row = plan.graph.weight_row(members[0])
        if row is not None:
            for member in members:
                checked_header(source, member, canonical[member])
            out, into = shapes.pop(name)
            matrices.append(QuantizedMatrix(name, members, (out, into), row))
    return shapes, tuple(matrices)
