"""From weights and texts to statistics on disk: the stage that a build stores once for all recipes of a model."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import numpy as np

from specc.calibrate.collect import statistics_of_taps
from specc.calibrate.statistics_file import write_statistics
from specc.checkpoint.source import SourceCheckpoint
from specc.errors import SpeccError
from specc.lower.place import Place
from specc.lower.tapped import write_tapped
from specc.plan.plan import Plan
from specc.progress import Progress

GRAPH_FOLDER = "graph"


def reference_plan(plan: Plan) -> Plan:
    """Return the plan of the float32 target on ONNX Runtime that calibration runs, whatever the build is for."""
    buckets = plan.graph.capacity_buckets
    graph = dataclasses.replace(
        plan.graph, compute_dtype="f32", capacity=None, capacity_buckets=buckets, variants=("main",), features=()
    )
    backend = dataclasses.replace(plan.backend, name="onnxruntime", compute_capabilities=())
    target = dataclasses.replace(plan.target, scheme="f32")
    return dataclasses.replace(plan, target=target, graph=graph, backend=backend)


def write_calibration(
    plan: Plan,
    source: SourceCheckpoint,
    weights: Path,
    texts: tuple[str, ...],
    folder: Path,
    *,
    place: Place,
    hessian: bool,
    progress: Progress,
) -> None:
    """Fill a folder with the statistics of the inputs of all linear layers.

    Args:
        plan: `reference_plan`.
        source: whose tokenizer reads the texts.
        weights: the folder that `write_weights` filled for that plan.
        texts: to read, each from an empty cache.
        folder: empty, exists.
        place: puts a file of the weights beside the graph.
        hessian: whether Hessians are kept, too: they take K * K * 4 bytes for each input.
        progress: told the tokens read.

    Raises:
        SpeccError: SPC411 the checkpoint has no tokenizer.
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
    graph = folder / GRAPH_FOLDER
    graph.mkdir()
    try:
        tapped = write_tapped(plan, weights, graph, place)
        found = statistics_of_taps(tapped, ids, hessian=hessian, progress=progress)
        write_statistics(folder, tapped, found, tokens=sum(map(len, ids)))
    finally:
        shutil.rmtree(graph)
