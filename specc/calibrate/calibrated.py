"""From weights and texts to statistics on disk: the stage that a build stores once for all recipes of a model."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from typing import Final

import numpy as np

from specc.calibrate.collect import statistics_of_taps
from specc.calibrate.statistics_file import write_statistics
from specc.checkpoint.source import SourceCheckpoint
from specc.errors import SpeccError
from specc.lower.place import Place
from specc.lower.tapped import write_tapped
from specc.lower.weights import write_weights
from specc.plan.calibration import CalibrationPlan
from specc.plan.plan import Plan
from specc.progress import Progress

LONGEST_CALL: Final = 4096
"""Most tokens of a text that calibration reads at once, where the model was trained for as many."""


def reference_plan(plan: Plan) -> Plan:
    """Return the plan of the float32 target on ONNX Runtime that calibration runs, whatever the build is for.

    Its rotary tables are as long as calibration's calls may be and not as the bundle's texts: what is learnt serves
    bundles of all limits.
    """
    buckets = (min(plan.target.facts.max_position_embeddings, LONGEST_CALL),)
    graph = dataclasses.replace(
        plan.graph, compute_dtype="f32", capacity=None, capacity_buckets=buckets, variants=("main",), features=(),
        role="target", steps=1, weights=(), acceptance="greedy", typical=None, verification="native",
        attention="native", int8_caches=False,
    )  # fmt: skip
    backend = dataclasses.replace(plan.backend, name="onnxruntime", compute_capabilities=())
    target = dataclasses.replace(plan.target, scheme="f32")
    return dataclasses.replace(plan, target=target, graph=graph, backend=backend)


def write_calibration(
    plan: Plan,
    source: SourceCheckpoint,
    texts: tuple[str, ...],
    folder: Path,
    *,
    place: Place,
    wanted: CalibrationPlan,
    progress: Progress,
) -> None:
    """Fill a folder with the statistics of the inputs of all linear layers, and of the caches' rows where wanted.

    Args:
        plan: `reference_plan`.
        source: whose tokenizer reads the texts.
        texts: to read, each from an empty cache.
        folder: empty, exists.
        place: puts a file of the source beside the graph, which is removed at the end.
        wanted: which statistics; Hessians take K * K * 4 bytes for each input.
        progress: told the tokens read.

    Raises:
        SpeccError: SPC411 the checkpoint has no tokenizer; or what `write_weights` raises.
    """
    tokenizer = source.tokenizer()
    if tokenizer is None:
        raise SpeccError(
            "SPC411",
            source.uri,
            "The checkpoint has no tokenizer.",
            "Calibration reads texts with the target, and texts become tokens by its tokenizer.",
            "Name one in target.tokenizer, or take method rtn or mse, which need no calibration.",
        )
    ids = [np.array(tokenizer.encode(text, add_special_tokens=True).ids, np.int64) for text in texts]
    ids = [text for text in ids if len(text)]
    weights, graph = folder / "weights", folder / "graph"
    try:
        for part in (weights, graph):
            part.mkdir()
        write_weights(plan, source, weights, place, progress)
        tapped = write_tapped(plan, weights, graph, place, caches=wanted.caches)
        found = statistics_of_taps(tapped, ids, hessian=wanted.hessian, progress=progress)
        write_statistics(folder, tapped, found, tokens=sum(map(len, ids)))
    finally:
        for part in (weights, graph):
            shutil.rmtree(part, ignore_errors=True)
