"""Pass: verify with the plugin's kernels where the plan says so: the call of `specc::Verify` becomes their chain.

Inputs, outputs and rules are those of the call. Nothing else of the graph changes but what stood between the head and
the call and only the call read: kernels read the head's result as it is, in its own dtype and with its padding, so that
the logits are not copied.
"""

from __future__ import annotations

from typing import Final

import onnx_ir as ir

from specc.checkpoint.facts import ModelFacts
from specc.errors import SpeccBug
from specc.graph.builder import DOMAIN
from specc.graph.verify import VERIFY, VERIFY_OUTPUTS, verify_inputs
from specc.lower.lowering_pass import LoweringPass
from specc.lower.take_place import take_place
from specc.plan.plan import GraphPlan
from specc.plugin.layout import CANDIDATES
from specc.plugin.operators import CHAINS, OPERATORS, LogitsDtype, chain_of
from specc.plugin.variants import attributes_of, plugin_name

# How TensorRT's parser finds a plugin: op type and namespace; version 1 is that of every plugin of its Python layer.
_PLUGIN: Final[dict[str, str | int]] = {"plugin_namespace": DOMAIN, "plugin_version": "1", "aot": 1}


def _apply(model: ir.Model, graph: GraphPlan) -> None:
    if graph.verification == "native":
        return
    calls = [node for node in model.graph if (node.domain, node.op_type) == (DOMAIN, VERIFY)]
    if len(calls) != 1 or graph.acceptance not in CHAINS or graph.candidates > CANDIDATES:
        raise SpeccBug(f"{graph.acceptance}, {graph.candidates} candidates, {len(calls)} calls: nothing for the plugin")
    call = calls[0]
    logits = _own_logits(call.inputs[0], graph)
    values: dict[str, ir.Value | None] = dict(zip(verify_inputs(graph), call.inputs[1:], strict=True))
    values["logits"] = logits
    if graph.head == "fused":
        values["hidden"], values["weight"] = _factors(logits)
    settings = {"vocab_size": _width(model), "candidates": graph.candidates}
    nodes = []
    for name in chain_of(graph.acceptance, graph.head):
        row = OPERATORS[name]
        attributes = {key: settings[key] for key in attributes_of(row)} | _PLUGIN
        inputs = [values[tensor] for tensor in row.inputs]
        node = ir.node(plugin_name(name), inputs, attributes, domain=DOMAIN, num_outputs=len(row.outputs))
        node.name = f"verify.{name}"
        for tensor, output in zip(row.outputs, node.outputs, strict=True):
            output.name = f"verify.{tensor}"
            values[tensor] = output
        nodes.append(node)
    model.graph.insert_before(call, nodes)
    for name, old in zip(VERIFY_OUTPUTS, call.outputs, strict=True):
        new = values[name]
        assert new is not None
        take_place(new, old)
    unread = call.inputs[0]
    model.graph.remove(call, safe=True)
    _remove_unread(model.graph, unread, stop=values["hidden"] if graph.head == "fused" else logits)
    model.functions.clear()


def logits_read(facts: ModelFacts, graph: GraphPlan) -> tuple[LogitsDtype, int]:
    """Return dtype and width of the logits that kernels of a target graph read: of the head's result, if it is they."""
    if facts.scales.plain_logits:
        return graph.compute_dtype, facts.vocab_size
    return "f32", facts.emitted_vocab_size


def _factors(logits: ir.Value | None) -> tuple[ir.Value | None, ir.Value | None]:
    """Return hidden states [B, R, H] and the head [W, H] whose product the logits are."""
    product = None if logits is None else logits.producer()
    transpose = None if product is None or product.inputs[1] is None else product.inputs[1].producer()
    if product is None or product.op_type != "MatMul" or transpose is None or transpose.op_type != "Transpose":
        raise SpeccBug("the logits are not the product of hidden states and the head alone")
    return product.inputs[0], transpose.inputs[0]


def _remove_unread(graph: ir.Graph, value: ir.Value | None, stop: ir.Value | None) -> None:
    """Remove the nodes before a value that nothing reads any more, along their first inputs, up to one that stays.

    The transposed head goes with its product.
    """
    while value is not None and value is not stop and not value.uses() and not value.is_graph_output():
        unread = value.producer()
        if unread is None:
            return
        value, second = unread.inputs[0], unread.inputs[1] if unread.op_type == "MatMul" else None
        graph.remove(unread, safe=True)
        _remove_unread(graph, second, stop)


def _own_logits(logits: ir.Value | None, graph: GraphPlan) -> ir.Value | None:
    """Return the head's result where the logits are nothing but it, converted to float32 and without its padding."""
    for operator in ("Slice",) if graph.compute_dtype == "f32" else ("Cast", "Slice"):
        producer = None if logits is None else logits.producer()
        if producer is not None and producer.op_type == operator:
            logits = producer.inputs[0]
    return logits


def _width(model: ir.Model) -> int:
    """Return V, which the function states of its logits."""
    shape = model.functions[DOMAIN, VERIFY, ""].inputs[0].shape
    width = None if shape is None else shape[2]
    if not isinstance(width, int):
        raise SpeccBug(f"{DOMAIN}::{VERIFY} does not state the width of its logits")
    return width


USE_VERIFY_PLUGIN: Final = LoweringPass("use_verify_plugin", ("canonical",), ("verification is lowered",), _apply)
