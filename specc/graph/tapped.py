"""The decoder whose outputs are the inputs of its linear layers: what calibration runs."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from specc.checkpoint.facts import ModelFacts
from specc.graph.builder import IR_VERSION, Builder, declared
from specc.graph.decoder import decoded
from specc.graph.interface import Interface, target_interface
from specc.plan.plan import GraphPlan

ENDING = ".weight"


@dataclass(frozen=True)
class TappedGraph:
    """A decoder without head.

    Attributes:
        model: weights are initializers without data, by canonical name.
        interface: of the target graph; of its inputs the model has those it needs.
        taps: outputs of the model [B, S, K], each with the canonical names of the weights it is the input of.
    """

    model: ir.Model
    interface: Interface
    taps: dict[str, tuple[str, ...]]


def tapped_graph(facts: ModelFacts, graph: GraphPlan) -> TappedGraph:
    """Return the decoder of a target graph with the inputs of its linear layers as outputs.

    Experts are left out: their products stand in loops, and each sees the tokens routed to it alone.

    Args:
        facts: of the model.
        graph: of the plan; in float32, without quantized weights.
    """
    interface = target_interface(facts, graph, "main")
    inputs = {spec.name: declared(spec.name, spec.dtype, spec.shape) for spec in interface.inputs}
    builder = Builder()
    decoded(builder, inputs, facts, graph)
    inputs_of: dict[ir.Value, list[str]] = {}
    for name, weight in builder.initializers.items():
        for product in _products(weight):
            source = product.inputs[0]
            if source is not None and name.endswith(ENDING):
                inputs_of.setdefault(source, []).append(name)
    taken = {value for node in builder.nodes for value in node.inputs if value is not None}
    used = tuple(value for value in inputs.values() if value in taken)
    for value in inputs_of:
        value.type = ir.TensorType(ir.DataType.FLOAT)
    main = builder.graph("specc_tapped", used, tuple(inputs_of))
    weights = {name: value for name, value in builder.initializers.items() if value.uses()}
    main.initializers.update(weights)
    model = ir.Model(main, ir_version=IR_VERSION, producer_name="specc")
    return TappedGraph(model, interface, {value.name or "": tuple(names) for value, names in inputs_of.items()})


def _products(weight: ir.Value) -> list[ir.Node]:
    """Return the products that a matrix is the second factor of, transposed."""
    transposes = [node for node in weight.consumers() if node.op_type == "Transpose"]
    return [user for node in transposes for user in node.outputs[0].consumers() if user.op_type == "MatMul"]
