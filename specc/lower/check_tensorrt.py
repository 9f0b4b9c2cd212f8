"""Pass: refuse what TensorRT's parser would accept and then compute something else, or write somewhere else.

Measured on TensorRT-RTX 1.7: its importer of Attention reads inputs 0 to 5 and drops `nonpad_kv_seqlen`, after which a
causal mask is aligned at the wrong end; a cache update is in place only between a graph input and a graph output; and
a call of a function leaves the function's values behind, which later nodes get for values of the same names.
"""

from __future__ import annotations

from typing import Final

import onnx_ir as ir

from specc.errors import SpeccBug
from specc.graph.builder import DOMAIN
from specc.lower.inline_conditionals import NO_CONTROL_FLOW
from specc.lower.lowering_pass import LoweringPass
from specc.plan.plan import GraphPlan

_MASK: Final = 3
_DROPPED_FROM: Final = 4  # past_key, past_value, nonpad_kv_seqlen


def _apply(model: ir.Model, graph: GraphPlan) -> None:
    for node in model.graph.all_nodes():
        if node.domain == "" and node.op_type == "Attention":
            _check_attention(node)
        elif node.domain == "" and node.op_type == "TensorScatter":
            _check_cache_update(node)
    _check_names(model)
    if graph.capacity is None:
        raise SpeccBug("TensorRT needs a static capacity of the caches; the plan has none")


def _check_names(model: ir.Model) -> None:
    inner = {value.name for function in model.functions.values() for node in function for value in node.outputs}
    made: set[ir.Value] = set()
    replaced: set[ir.Value] = set()
    for node in model.graph:
        for value in node.inputs:
            if value in replaced:
                raise SpeccBug(f"{node.name}: {value.name} is also a value of a function that was called before")
        if node.domain == DOMAIN:
            replaced |= made
        made |= {value for value in node.outputs if value.name in inner}


def _check_attention(node: ir.Node) -> None:
    causal = node.attributes.get_int("is_causal", 0)
    if causal or any(value is not None for value in node.inputs[_DROPPED_FROM:]):
        raise SpeccBug(
            f"{node.name}: Attention with is_causal or cached inputs would lose `nonpad_kv_seqlen` in TensorRT's parser"
        )
    if len(node.inputs) <= _MASK or node.inputs[_MASK] is None:
        raise SpeccBug(f"{node.name}: Attention without a mask would see stale cache rows")


def _check_cache_update(node: ir.Node) -> None:
    cache, output = node.inputs[0], node.outputs[0]
    if cache is None or not cache.is_graph_input() or not output.is_graph_output():
        raise SpeccBug(f"{node.name}: TensorRT updates a cache in place only from a graph input to a graph output")


CHECK_TENSORRT: Final = LoweringPass("check_tensorrt", (NO_CONTROL_FLOW,), ("legal for TensorRT",), _apply)
