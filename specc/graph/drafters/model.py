"""The draft graph: a decoder over in-place caches and its pick of the next draft, see docs/engine-abi.md."""

from __future__ import annotations

import onnx_ir as ir

from specc.checkpoint.facts import ModelFacts
from specc.graph.builder import DOMAIN, IR_VERSION, Builder, declared
from specc.graph.decoder import decoded, head_logits
from specc.graph.drafters.interface import draft_interface
from specc.graph.drafters.pick import DRAFT, draft_functions, draft_inputs
from specc.plan.plan import GraphPlan


def draft_graph(facts: ModelFacts, graph: GraphPlan) -> ir.Model:
    """Return the canonical draft graph, the same for every back end; lowering passes make it theirs.

    Args:
        facts: of the draft; weights are initializers without data, by canonical name, as in the target graph.
        graph: dtype, capacity, acceptance, candidates and support.
    """
    interface = draft_interface(facts, graph)
    inputs = {spec.name: declared(spec.name, spec.dtype, spec.shape) for spec in interface.inputs}
    builder = Builder()
    hidden, caches = decoded(builder, inputs, facts, graph)
    last = builder.op("Sub", inputs["num_tokens"], builder.i64_scalar(1), name="last_token")
    last = builder.op("Max", last, builder.i64_scalar(0), name="asked_token")  # an idle row has none
    rows = builder.op("Unsqueeze", last, builder.i64(1), name="asked_row")  # [B, 1]
    logits = head_logits(builder, hidden, rows, facts, graph)  # [B, 1, V]
    names = tuple(spec.name for spec in interface.outputs if spec.name not in caches)
    arguments = [inputs[name] for name in draft_inputs(graph)]
    results = dict(zip(names, builder.ops(DRAFT, logits, *arguments, outputs=names, domain=DOMAIN), strict=True))
    results |= caches
    outputs = []
    for spec in interface.outputs:
        value = results[spec.name]
        like = declared(spec.name, spec.dtype, spec.shape)
        value.name, value.type, value.shape = like.name, like.type, like.shape
        outputs.append(value)
    main = builder.graph("specc_draft", tuple(inputs.values()), outputs)
    main.initializers.update(builder.initializers)
    functions = draft_functions(graph, facts.emitted_vocab_size)
    return ir.Model(main, ir_version=IR_VERSION, producer_name="specc", functions=functions)
