"""Lowering in one call, for tests and tools; a build stores its two halves apart (`weights.py`, `graphs.py`)."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from specc.checkpoint.source import SourceCheckpoint
from specc.lower.graphs import lowered_in_folder, write_graphs
from specc.lower.lowered import Lowered
from specc.lower.place import link_or_copy
from specc.lower.weights import NOTHING_CACHED, write_weights
from specc.plan.plan import Plan
from specc.progress import Progress
from specc.quantize.elements import Float32Array


def lowered_from_plan(
    plan: Plan,
    source: SourceCheckpoint,
    folder: Path,
    progress: Progress,
    cached: Mapping[str, Float32Array] = NOTHING_CACHED,
) -> Lowered:
    """Write the ONNX graphs of a plan and the weights they share. Equal input gives equal bytes.

    Args:
        plan: decides everything.
        source: the opened target checkpoint.
        folder: empty, exists; receives `target.onnx`, `target.logits.onnx` and the files of weights.
        progress: told the bytes of weights written.
        cached: what int8 caches are to hold, see `write_weights`.

    Raises:
        SpeccError: SPC401 to SPC404.
    """
    weights = folder / "weights"
    weights.mkdir()
    try:
        write_weights(plan, source, weights, link_or_copy, progress, cached=cached)
        write_graphs(plan, weights, folder, link_or_copy)
    finally:
        shutil.rmtree(weights)
    return lowered_in_folder(folder)
