"""The decoder whose outputs are the inputs of its linear layers, and rows of its caches: what calibration runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import onnx_ir as ir

from specc.checkpoint.facts import ModelFacts
from specc.errors import SpeccBug
from specc.graph.builder import IR_VERSION, Builder, declared
from specc.graph.decoder import decoded
from specc.graph.interface import Interface, target_interface
from specc.plan.plan import GraphPlan

ENDING = ".weight"
CACHES: Final = (("k_proj", "key"), ("v_proj", "value"))


@dataclass(frozen=True)
class TappedGraph:
    """A decoder without head.

    Attributes:
        model: weights are initializers without data, by canonical name.
        interface: of the target graph; of its inputs the model has those it needs.
        taps: outputs of the model [B, S, K], each with the canonical names of the weights it is the input of, or with
            that of the cache it goes into.
        widths: K of each.
    """

    model: ir.Model
    interface: Interface
    taps: dict[str, tuple[str, ...]]
    widths: dict[str, int]


def cache_name(projection: str) -> str:
    """Return what the rows of a cache are called, by the weight that makes them, `k_proj` or `v_proj` of a layer."""
    return f"{projection.removesuffix('_proj.weight')}_cache"


def tapped_graph(facts: ModelFacts, graph: GraphPlan, *, caches: bool) -> TappedGraph:
    """Return the decoder of a target graph with the inputs of its linear layers as outputs.

    Experts are left out: their products stand in loops, and each sees the tokens routed to it alone.

    Args:
        facts: of the model.
        graph: of the plan; in float32, without quantized weights.
        caches: whether rows that go into the caches are outputs, too.
    """
    interface = target_interface(facts, graph, "main")
    inputs = {spec.name: declared(spec.name, spec.dtype, spec.shape) for spec in interface.inputs}
    builder = Builder()
    _, written = decoded(builder, inputs, facts, graph)
    inputs_of: dict[ir.Value, list[str]] = {}
    widths: dict[ir.Value, int] = {}
    for name, weight in builder.initializers.items():
        for product in _products(weight):
            source = product.inputs[0]
            if source is not None and name.endswith(ENDING):
                inputs_of.setdefault(source, []).append(name)
                widths[source] = _columns(weight)
    for layer in range(facts.num_hidden_layers if caches else 0):
        for projection, cache in CACHES:
            rows = _cached_rows(builder, written[f"{cache}_cache_{layer}_out"], f"{cache}_rows_{layer}", facts)
            inputs_of[rows] = [cache_name(f"model.layers.{layer}.self_attn.{projection}.weight")]
            widths[rows] = facts.num_key_value_heads * facts.head_dim
    taken = {value for node in builder.nodes for value in node.inputs if value is not None}
    used = tuple(value for value in inputs.values() if value in taken)
    for value in inputs_of:
        value.type = ir.TensorType(ir.DataType.FLOAT)
    main = builder.graph("specc_tapped", used, tuple(inputs_of))
    weights = {name: value for name, value in builder.initializers.items() if value.uses()}
    main.initializers.update(weights)
    model = ir.Model(main, ir_version=IR_VERSION, producer_name="specc")
    return TappedGraph(
        model=model,
        interface=interface,
        taps={value.name or "": tuple(names) for value, names in inputs_of.items()},
        widths={value.name or "": width for value, width in widths.items()},
    )


def _columns(weight: ir.Value) -> int:
    if weight.shape is None:
        raise SpeccBug(f"{weight.name} has no shape")
    return int(weight.shape.numpy()[1])


def _cached_rows(builder: Builder, cache: ir.Value, name: str, facts: ModelFacts) -> ir.Value:
    """Return the rows that a step writes into a cache, [B, S, KV*D]."""
    scatter = cache.producer()
    rows = None if scatter is None else scatter.inputs[1]  # [B, KV, S, D]
    if rows is None:
        raise SpeccBug(f"{cache.name} is not written")
    turned = builder.op("Transpose", rows, name=f"{name}.turned", perm=[0, 2, 1, 3])
    return builder.op("Reshape", turned, builder.i64(0, 0, facts.num_key_value_heads * facts.head_dim), name=name)


def _products(weight: ir.Value) -> list[ir.Node]:
    """Return the products that a matrix is the second factor of, transposed."""
    transposes = [node for node in weight.consumers() if node.op_type == "Transpose"]
    return [user for node in transposes for user in node.outputs[0].consumers() if user.op_type == "MatMul"]
