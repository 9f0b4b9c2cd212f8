"""The graph that calibration runs, written beside its weights like any other."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from specc.bundle.manifest import TensorSpec
from specc.graph.tapped import tapped_graph
from specc.lower.bind_weights import bind_weights
from specc.lower.graphs import placed_weights, write_model
from specc.lower.place import Place
from specc.plan.plan import Plan

TAPPED_FILE: Final = "tapped.onnx"


@dataclass(frozen=True)
class Tapped:
    """A graph on disk whose outputs are inputs of linear layers.

    Attributes:
        path: of the graph.
        inputs: that it takes, as the target's engine takes them.
        taps: outputs [B, S, K], with the canonical names of the weights each is the input of, or of its cache.
        widths: K of each tap.
        length: most tokens of one call: the rotary tables end there.
    """

    path: Path
    inputs: tuple[TensorSpec, ...]
    taps: dict[str, tuple[str, ...]]
    widths: dict[str, int]
    length: int


def write_tapped(plan: Plan, weights: Path, folder: Path, place: Place, *, caches: bool) -> Tapped:
    """Write the tapped graph of a plan.

    Args:
        plan: in float32 for ONNX Runtime, without quantized weights.
        weights: the folder that `write_weights` filled for it.
        folder: empty, exists.
        place: puts a file of the weights into the folder.
        caches: whether rows of the caches are tapped, too.
    """
    tapped = tapped_graph(plan.target.facts, plan.graph, caches=caches)
    stored = placed_weights(tapped.model, plan, weights, folder, place)
    names = {value.name for value in tapped.model.graph.inputs}
    bind_weights(tapped.model, stored, folder)
    write_model(tapped.model, folder / TAPPED_FILE)
    inputs = tuple(spec for spec in tapped.interface.inputs if spec.name in names)
    return Tapped(folder / TAPPED_FILE, inputs, tapped.taps, tapped.widths, plan.graph.capacity_buckets[-1])
