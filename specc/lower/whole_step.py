"""One graph of two lowered ones: the steps of the unrolled draft, then the target's verification of what they drafted.

Both are taken as their own passes left them, each with its own weights; what the draft names gets a prefix. Only the
few nodes between them are new: the row that the target verifies is the anchor and the drafts.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import onnx_ir as ir

from specc.bundle.manifest import DRAFT_PREFIX, CacheSpec, Dimension, EngineVariant, TensorSpec
from specc.bundle.record import text_from_record
from specc.errors import SpeccBug
from specc.graph.builder import DOMAIN, IR_VERSION, OPSET, Builder, declared
from specc.lower.graphs import LOWERED_FILE, LoweredList, lowered_in_folder, write_model
from specc.lower.lowered import Lowered, LoweredGraph
from specc.lower.passes import check_lowered
from specc.lower.place import Place
from specc.lower.stored_weights import refused_by_disk
from specc.plan.plan import Plan

# Between the draft's names and a dot-separated name of a value or node.
_NAME_PREFIX: Final = "draft."
_MADE: Final = ("input_ids", "num_tokens", "logit_rows", "q_ids", "q_probs")


def write_whole_step(plan: Plan, target: Path, draft: Path, folder: Path, place: Place) -> None:
    """Fill a folder with the whole step's graph, the files of both models' weights, and lowered.json.

    Args:
        plan: of the target.
        target: folder of the target's lowered graphs.
        draft: folder of the draft's, with an unrolled one.
        folder: empty, exists.
        place: puts a file of weights into the folder.

    Raises:
        SpeccError: SPC403 the disk refuses; or what `place` raises.
        SpeccBug: the composed graph is not legal for the back end.
    """
    lowered = lowered_in_folder(target), lowered_in_folder(draft)
    graphs = _graph_of(lowered[0], "main"), _graph_of(lowered[1], "unrolled")
    models = [ir.load(made.folder / graph.file) for made, graph in zip(lowered, graphs, strict=True)]
    files = {file: made.folder for made, model in zip(lowered, models, strict=True) for file in _files(made, model)}
    whole = whole_step_interface(*graphs)
    model = whole_step_model(models[0], models[1], whole)
    check_lowered(model, plan.graph, plan.backend.name)
    try:
        for file, source in files.items():
            place(source / file, folder / file)
        write_model(model, folder / whole.file)
        (folder / LOWERED_FILE).write_text(text_from_record(LoweredList((whole,), tuple(files))), encoding="utf-8")
    except OSError as error:
        raise refused_by_disk(folder, error) from error


def whole_step_interface(target: LoweredGraph, draft: LoweredGraph) -> LoweredGraph:
    """Return the tensors of the whole step: docs/engine-abi.md as rows of a manifest.

    Args:
        target: its main graph.
        draft: its unrolled graph.
    """
    rows = TensorSpec("", "i64", ("B",), True, None)
    of_target = _small(target.inputs, target.caches)
    taken = {*_MADE, "past_lengths"}
    inputs = [replace(rows, name="input_ids", shape=("B", "S"))]
    inputs += [replace(rows, name=name) for name in ("num_tokens", "past_lengths", "draft_past_lengths")]
    inputs += [tensor for tensor in of_target if tensor.name not in taken]
    if any(tensor.name == "seed" for tensor in draft.inputs):
        inputs.append(replace(rows, name="draft_seed"))
    caches = {cache.input for cache in target.caches}
    draft_caches = {cache.input for cache in draft.caches}
    inputs += [tensor for tensor in target.inputs if tensor.name in caches]
    inputs += [_of_draft(tensor) for tensor in draft.inputs if tensor.name in draft_caches]
    sizes: dict[Dimension, Dimension] = {"R": draft.steps + 1}
    outputs = [
        replace(tensor, shape=tuple(sizes.get(size, size) for size in tensor.shape))
        for tensor in _small(target.outputs, target.caches)
    ]
    outputs.append(replace(rows, name="drafts", shape=("B", draft.steps)))
    written = {cache.output for cache in target.caches}, {cache.output for cache in draft.caches}
    outputs += [tensor for tensor in target.outputs if tensor.name in written[0]]
    outputs += [_of_draft(tensor) for tensor in draft.outputs if tensor.name in written[1]]
    both = (*target.caches, *(_cache_of_draft(cache) for cache in draft.caches))
    return LoweredGraph("target", "whole", "target.whole.onnx", tuple(inputs), tuple(outputs), both, steps=draft.steps)


def whole_step_model(target: ir.Model, draft: ir.Model, whole: LoweredGraph) -> ir.Model:
    """Return the composed model; both given ones are used up.

    Args:
        target: its main graph after its passes.
        draft: its unrolled graph after its passes.
        whole: the tensors of the result.
    """
    draft_inputs = {str(value.name): value for value in draft.graph.inputs}
    draft_outputs = {str(value.name): value for value in draft.graph.outputs}
    prefix_names(draft)
    inputs = {spec.name: declared(spec.name, spec.dtype, spec.shape) for spec in whole.inputs}
    for name, value in draft_inputs.items():
        own = f"{DRAFT_PREFIX}{name}"
        value.replace_all_uses_with(inputs[own if own in inputs else name])
    builder = Builder()
    with builder.scope("round"):
        made = _verified_row(builder, inputs, draft_outputs, whole.steps)
    for value in target.graph.inputs:
        value.replace_all_uses_with((inputs | made)[str(value.name)])
    results = {str(value.name): value for value in target.graph.outputs}
    results |= {name if name == "drafts" else f"{DRAFT_PREFIX}{name}": value for name, value in draft_outputs.items()}
    nodes = list(builder.nodes)
    for model in (target, draft):
        moved = list(model.graph)
        model.graph.outputs.clear()
        model.graph.remove(moved)
        nodes = [*nodes, *moved] if model is target else [*moved, *nodes]
    return _model(inputs, nodes, results, (target, draft), whole)


def prefix_names(model: ir.Model) -> None:
    """Give everything that a model names a prefix, in place: values, nodes, initializers and functions."""
    calls = {identifier: f"{DRAFT_PREFIX}{function.name}" for identifier, function in model.functions.items()}
    functions = list(model.functions.values())
    for nodes in (model.graph.all_nodes(), *(function.all_nodes() for function in functions)):
        for node in nodes:
            node.name = f"{_NAME_PREFIX}{node.name}"
            node.op_type = calls.get(node.op_identifier(), node.op_type)
            for value in node.outputs:
                value.name = f"{_NAME_PREFIX}{value.name}"
    for value in (*model.graph.inputs, *tuple(model.graph.initializers.values())):
        value.name = f"{_NAME_PREFIX}{value.name}"
    model.functions.clear()
    for function in functions:
        function.name = f"{DRAFT_PREFIX}{function.name}"
        model.functions[function.identifier()] = function


def _verified_row(
    builder: Builder, inputs: dict[str, ir.Value], drafted: dict[str, ir.Value], steps: int
) -> dict[str, ir.Value]:
    """Return the target's inputs that follow from the drafts: the anchor and they, as many as a row wants judged."""
    fed, wanted = inputs["num_tokens"], inputs["num_draft"]
    zero, one = builder.i64_scalar(0), builder.i64_scalar(1)
    fed_column = builder.op("Unsqueeze", fed, builder.i64(1), name="fed_column")  # [B, 1]
    last = builder.op("Max", builder.op("Sub", fed_column, one, name="last_token"), zero, name="anchor_place")
    anchor = builder.op("GatherElements", inputs["input_ids"], last, name="anchor", axis=1)  # [B, 1]
    drafts = builder.op("Max", drafted["drafts"], zero, name="judged_drafts")  # -1 of idle rows
    active = builder.op("Greater", fed, zero, name="is_active")  # [B]
    tokens = builder.op("Add", wanted, one, name="row_tokens")
    column = builder.constant(np.arange(steps + 1, dtype=np.int64), "column")
    wanted_column = builder.op("Unsqueeze", wanted, builder.i64(1), name="wanted_column")  # [B, 1]
    made = {
        "input_ids": builder.op("Concat", anchor, drafts, name="row", axis=1),  # [B, steps + 1]
        "num_tokens": builder.op("Where", active, tokens, zero, name="tokens_or_idle"),
        "logit_rows": builder.op("Min", column, wanted_column, name="judged_rows"),
    }
    if "q_ids" in drafted:
        for name, fill in (("q_ids", builder.i64_scalar(-1)), ("q_probs", builder.f32(0.0))):
            made[name] = _with_last_row(builder, drafted[name], fill, name)
    return made


def _with_last_row(builder: Builder, law: ir.Value, fill: ir.Value, name: str) -> ir.Value:
    """Return laws of drafts [B, steps, Kq] with one row more, which judges no draft: [B, steps + 1, Kq]."""
    first = builder.op("Slice", law, builder.i64(0), builder.i64(1), builder.i64(1), name=f"{name}_row")  # [B, 1, Kq]
    shape = builder.op("Shape", first, name=f"{name}_shape")
    return builder.op("Concat", law, builder.op("Expand", fill, shape, name=f"no_{name}"), name=name, axis=1)


def _model(
    inputs: dict[str, ir.Value],
    nodes: list[ir.Node],
    results: dict[str, ir.Value],
    models: tuple[ir.Model, ir.Model],
    whole: LoweredGraph,
) -> ir.Model:
    """Return the model of all nodes, in order, with the initializers and functions of both models."""
    outputs = []
    for spec in whole.outputs:
        value, like = results[spec.name], declared(spec.name, spec.dtype, spec.shape)
        value.name, value.type, value.shape = like.name, like.type, like.shape
        outputs.append(value)
    initializers = [value for model in models for value in model.graph.initializers.values()]
    for model in models:
        model.graph.initializers.clear()
    opsets = {"": OPSET, DOMAIN: 1} | models[0].graph.opset_imports | models[1].graph.opset_imports
    graph = ir.Graph(
        tuple(inputs.values()), outputs, nodes=nodes, initializers=initializers, opset_imports=opsets,
        name="specc_whole_step",
    )  # fmt: skip
    functions = [function for model in models for function in model.functions.values()]
    return ir.Model(graph, ir_version=IR_VERSION, producer_name="specc", functions=functions)


def _graph_of(lowered: Lowered, variant: EngineVariant) -> LoweredGraph:
    for graph in lowered.graphs:
        if graph.variant == variant:
            return graph
    raise SpeccBug(f"{lowered.folder} has no graph of the variant {variant}")


def _files(lowered: Lowered, model: ir.Model) -> list[str]:
    """Return the files that a model's initializers lie in, in order."""
    tensors = (value.const_value for value in model.graph.initializers.values())
    files = dict.fromkeys(Path(tensor.location).name for tensor in tensors if isinstance(tensor, ir.ExternalTensor))
    missing = [file for file in files if not (lowered.folder / file).is_file()]
    if missing:
        raise SpeccBug(f"{lowered.folder} has no {', '.join(missing)}")
    return list(files)


def _small(tensors: tuple[TensorSpec, ...], caches: tuple[CacheSpec, ...]) -> list[TensorSpec]:
    names = {cache.input for cache in caches} | {cache.output for cache in caches}
    return [tensor for tensor in tensors if tensor.name not in names]


def _of_draft(tensor: TensorSpec) -> TensorSpec:
    """Return a cache of the draft under its name here; its length is another dimension."""
    shape = tuple("draft_C" if size == "C" else size for size in tensor.shape)
    return replace(tensor, name=f"{DRAFT_PREFIX}{tensor.name}", shape=shape)


def _cache_of_draft(cache: CacheSpec) -> CacheSpec:
    return replace(cache, input=f"{DRAFT_PREFIX}{cache.input}", output=f"{DRAFT_PREFIX}{cache.output}", of="draft")
