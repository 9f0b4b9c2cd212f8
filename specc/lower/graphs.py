"""The second half of lowering: the ONNX graphs of a plan, after the back end's passes, over stored weights."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import onnx_ir as ir

from specc.bundle.record import record_from_file, text_from_record
from specc.bundle.rounding import rounding_file
from specc.errors import SpeccBug
from specc.graph.drafters.early import early_interface
from specc.graph.drafters.interface import draft_interface
from specc.graph.interface import has_early_exit, target_interface
from specc.lower.bind_weights import bind_weights, shapes_of_weights, tables_of
from specc.lower.lowered import Lowered, LoweredGraph
from specc.lower.models import models_from_plan
from specc.lower.passes import apply_passes
from specc.lower.place import Place
from specc.lower.quantized_weights import ROUNDING_FILE
from specc.lower.safetensors_file import FileTensor
from specc.lower.stored_weights import StoredWeight, refused_by_disk, written_tensors
from specc.lower.weights import weights_in_folder
from specc.plan.plan import GraphPlan, Plan
from specc.progress import silent

LOWERED_FILE: Final = "lowered.json"
TABLES_FILE: Final = "tables.safetensors"


@dataclass(frozen=True)
class LoweredList:
    """The whole of lowered.json."""

    graphs: tuple[LoweredGraph, ...]
    weight_files: tuple[str, ...]


def write_graphs(plan: Plan, weights: Path, folder: Path, place: Place) -> None:
    """Fill a folder with the graphs, the files of their weights and tables, and lowered.json.

    Equal input gives equal bytes.

    Args:
        plan: decides everything.
        weights: the folder that `write_weights` filled.
        folder: empty, exists.
        place: puts a file of the weights into the folder.

    Raises:
        SpeccError: SPC403 the disk refuses; or what `place` raises.
    """
    facts, graph = plan.target.facts, plan.graph
    models = models_from_plan(plan)
    try:
        graphs = []
        for variant, model in models.items():
            if shapes_of_weights(model) != shapes_of_weights(models["main"]):
                raise SpeccBug(f"variant {variant} has other weights than main")
        for model in models.values():
            apply_passes(model, graph, plan.backend.name)
        stored = placed_weights(models["main"], plan, weights, folder, place)
        if (weights / ROUNDING_FILE).is_file():
            place(weights / ROUNDING_FILE, folder / rounding_file(graph.role))
        for variant, model in models.items():
            bind_weights(model, stored, folder)
            file = f"{graph.role}.onnx" if variant == "main" else f"{graph.role}.{variant}.onnx"
            write_model(model, folder / file)
            drafts = graph.role == "draft"
            interface = draft_interface(facts, graph, variant) if drafts else target_interface(facts, graph, variant)
            tensors = interface.inputs, interface.outputs, interface.caches
            graphs.append(LoweredGraph(graph.role, variant, file, *tensors, steps=graph.steps_of(variant)))
            if has_early_exit(graph, variant):
                early = early_interface(facts, graph)
                graphs.append(LoweredGraph("draft", variant, file, early.inputs, early.outputs, early.caches))
        files = tuple(dict.fromkeys(weight.file for weight in stored.values()))
        (folder / LOWERED_FILE).write_text(text_from_record(LoweredList(tuple(graphs), files)), encoding="utf-8")
    except OSError as error:
        raise refused_by_disk(folder, error) from error


def lowered_in_folder(folder: Path) -> Lowered:
    """Read what `write_graphs` wrote."""
    found = record_from_file(LoweredList, folder / LOWERED_FILE)
    return Lowered(folder, found.graphs, found.weight_files)


def lowered_for_engines(folder: Path, graph: GraphPlan) -> Lowered:
    """Read the graphs that become engines of the model's own."""
    lowered = lowered_in_folder(folder)
    kept = tuple(one for one in lowered.graphs if one.variant in graph.engine_variants)
    return replace(lowered, graphs=kept)


def write_model(model: ir.Model, path: Path) -> None:
    """Write a model whose initializers are bound; the same model gives the same bytes."""
    path.write_bytes(ir.to_proto(model).SerializeToString(deterministic=True))


def placed_weights(model: ir.Model, plan: Plan, weights: Path, folder: Path, place: Place) -> dict[str, StoredWeight]:
    """Place the weights' files, write the tables, and return where each initializer lies."""
    names = {name for name, value in model.graph.initializers.items() if value.const_value is None}
    stored = {name: weight for name, weight in weights_in_folder(weights).items() if name in names}
    for file in dict.fromkeys(weight.file for weight in stored.values()):
        place(weights / file, folder / file)
    entries = [
        FileTensor(name, plan.graph.compute_dtype, table.numpy().shape, table.tobytes)
        for name, table in tables_of(model).items()
    ]
    tables = TABLES_FILE if plan.graph.role == "target" else f"{plan.graph.role}.{TABLES_FILE}"
    return stored | written_tensors(folder / tables, entries, silent)
