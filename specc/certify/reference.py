"""The logits of a bundle's graph by the reference implementation of ONNX: NumPy, one node at a time.

It shares neither kernels nor fusions with ONNX Runtime. Weights are mapped, and a value is forgotten after its last
use, so a model needs little more memory than its largest tensor. It shows that the engine computes what its graph says;
that the graph says what the checkpoint means is held by specc's own tests.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Final

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from specc.bundle.certificate import ReferenceCheck, ReferencePosition
from specc.bundle.manifest import EngineSpec
from specc.certify.logits import LogitsEngine
from specc.certify.parity import Ids
from specc.certify.tolerance import REFERENCE_TOLERANCE
from specc.runtime.runners.runner import Array, Arrays, neutral_inputs
from specc.speculation.noise import Float32Array

REFERENCE_TOKENS: Final = 24
STANDARD_DOMAINS: Final = frozenset({"", "ai.onnx"})


def check_reference(bundle: Path, logits: LogitsEngine, prompt: Ids) -> ReferenceCheck | str:
    """Compare the engine's logits with the reference's after the first, the middle and the last token.

    Args:
        bundle: its folder.
        logits: its engine of variant `logits`.
        prompt: at least one id; the first `REFERENCE_TOKENS` are taken.

    Returns:
        The comparison, or the reason why there is none.
    """
    spec = logits.spec
    if spec.format != "onnx":
        return f"an engine of format {spec.format} does not hold its graph"
    if spec.compute_dtype not in REFERENCE_TOLERANCE:
        return f"no tolerance is stated for {spec.compute_dtype}"
    model = onnx.load(bundle / spec.file, load_external_data=False)
    nodes = nodes_of_output(model.graph, "logits")
    foreign = sorted({f"{node.domain}::{node.op_type}" for node in nodes if node.domain not in STANDARD_DOMAINS})
    if foreign:
        return f"the graph has operators that the reference lacks: {', '.join(foreign)}"
    ids = list(prompt[:REFERENCE_TOKENS])
    positions = sorted({0, len(ids) // 2, len(ids) - 1})
    computed = logits.after(ids, 0)[positions]
    expected = reference_logits(model, nodes, (bundle / spec.file).parent, spec, ids)[positions]
    return ReferenceCheck(
        tokens=len(ids),
        tolerance=REFERENCE_TOLERANCE[spec.compute_dtype],
        positions=tuple(
            _compared(position, one, other) for position, one, other in zip(positions, computed, expected, strict=True)
        ),
    )


def nodes_of_output(graph: onnx.GraphProto, output: str) -> list[onnx.NodeProto]:
    """Return the nodes that an output depends on, in the graph's order."""
    needed, nodes = {output}, []
    for node in reversed(graph.node):
        if needed & set(node.output):
            needed |= set(node.input)
            nodes.append(node)
    return nodes[::-1]


def reference_logits(
    model: onnx.ModelProto, nodes: list[onnx.NodeProto], folder: Path, spec: EngineSpec, ids: list[int]
) -> Float32Array:
    """Return the logits after each id, float32 [len(ids), V].

    Args:
        model: its external data was not loaded.
        nodes: what its output `logits` depends on.
        folder: of the external data.
        spec: the engine's inputs.
        ids: one prompt.
    """
    tensors = {tensor.name: tensor for tensor in model.graph.initializer}
    values = _inputs(spec, ids)
    uses = Counter(name for node in nodes for name in node.input)
    for node in nodes:
        feeds = {
            name: array_from_tensor(tensors[name], folder) if name in tensors else values[name]
            for name in node.input
            if name
        }
        values |= _evaluated(node, feeds, model)
        for name in node.input:
            uses[name] -= 1
            if not uses[name]:
                values.pop(name, None)
    return np.asarray(values["logits"][0], dtype=np.float32)


def array_from_tensor(tensor: onnx.TensorProto, folder: Path) -> Array:
    """Return an initializer; external data is mapped, whatever links lead to its file."""
    if tensor.data_location != onnx.TensorProto.EXTERNAL:
        return np.asarray(onnx.numpy_helper.to_array(tensor))
    where = {entry.key: entry.value for entry in tensor.external_data}
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
    return np.memmap(folder / where["location"], dtype, "r", int(where.get("offset", "0")), tuple(tensor.dims))


def _evaluated(node: onnx.NodeProto, feeds: Arrays, model: onnx.ModelProto) -> Arrays:
    made = [name for name in node.output if name]
    untyped = onnx.TensorProto.UNDEFINED
    graph = onnx.helper.make_graph(
        [node],
        "node",
        [onnx.helper.make_tensor_value_info(name, untyped, None) for name in feeds],
        [onnx.helper.make_tensor_value_info(name, untyped, None) for name in made],
    )
    alone = onnx.helper.make_model(graph, opset_imports=model.opset_import)
    return dict(zip(made, ReferenceEvaluator(alone).run(made, feeds), strict=True))


def _inputs(spec: EngineSpec, ids: list[int]) -> Arrays:
    """Return one row that feeds all ids into empty caches and asks for the logits of each."""
    count = len(ids)
    given: Arrays = {
        "input_ids": np.array([ids], dtype=np.int64),
        "num_tokens": np.array([count], dtype=np.int64),
        "past_lengths": np.zeros(1, dtype=np.int64),
        "logit_rows": np.arange(count, dtype=np.int64)[None],
    }
    tensors = {tensor.name: tensor for tensor in spec.inputs}
    for cache in spec.caches:
        _, heads, _, width = tensors[cache.input].shape
        given[cache.input] = np.zeros((1, int(heads), count, int(width)), dtype=np.float32)
    return neutral_inputs(spec, 1, given)


def _compared(position: int, computed: Float32Array, expected: Float32Array) -> ReferencePosition:
    best, second = np.partition(expected, -2)[-2:][::-1] if len(expected) > 1 else (expected[0], expected[0])
    return ReferencePosition(
        position=position,
        difference=float(np.abs(computed - expected).max()),
        engine_pick=int(computed.argmax()),
        reference_pick=int(expected.argmax()),
        margin=float(best - second),
    )
