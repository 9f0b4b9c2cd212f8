"""The target's first layers as its draft: a call of the target graph that ends after them, over the same weights.

An engine of its own would hold these layers and the head once more in memory, since ONNX Runtime repacks the matrices
of each engine that it loads. So the layers behind the first ones stand under a scalar If: a call that ends early skips
them and leaves their caches as they are, which costs nothing where a cache is bound in place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import onnx_ir as ir

from specc.bundle.manifest import Dimension, TensorSpec
from specc.checkpoint.facts import ModelFacts
from specc.graph.builder import DOMAIN, Builder
from specc.graph.drafters.pick import DRAFT, draft_inputs
from specc.graph.interface import EARLY_EXIT, Interface, target_interface
from specc.graph.picks import if_true
from specc.plan.plan import GraphPlan
from specc.speculation.modes import MODES

# `q_ids` and `q_probs` are inputs of the same graph, and a name is one value.
LAW_OUTPUTS: Final = ("draft_q_ids", "draft_q_probs")


def early_interface(facts: ModelFacts, graph: GraphPlan) -> Interface:
    """Return the tensors of the target graph as a draft engine, whose neutral fill of `early_exit` ends calls early."""
    target = target_interface(facts, graph, "main")
    inputs = tuple(replace(spec, neutral=1) if spec.name == EARLY_EXIT else spec for spec in target.inputs)
    caches = tuple(spec for spec in target.outputs if spec.name in {cache.output for cache in target.caches})
    token = TensorSpec("next_token", "i64", ("B",), True, None)
    return Interface(inputs, (token, *law_specs(graph), *caches), target.caches)


def law_specs(graph: GraphPlan) -> tuple[TensorSpec, ...]:
    """Return the outputs that state what an early draft was drawn from; none where acceptance does not weigh it."""
    if not MODES[graph.acceptance].takes_q:
        return ()
    shape: tuple[Dimension, ...] = ("B", graph.support)
    return (
        TensorSpec(LAW_OUTPUTS[0], "i64", shape, False, None),
        TensorSpec(LAW_OUTPUTS[1], "f32", shape, False, None),
    )


def early_condition(builder: Builder, inputs: Mapping[str, ir.Value]) -> ir.Value:
    """Return whether the call ends early, a bool scalar."""
    flag = builder.op("Squeeze", inputs[EARLY_EXIT], builder.i64(0), name="early_flag")
    return builder.op("Cast", flag, name="ends_early", to=ir.DataType.BOOL)


def verification_inputs(
    builder: Builder, inputs: dict[str, ir.Value], early: ir.Value, graph: GraphPlan
) -> dict[str, ir.Value]:
    """Return the inputs for `specc::Verify`: a call that ends early judges nothing, and greedy rows cost least.

    Where acceptance fixes ids, the target's own pick is the draft: nothing changes.
    """
    if MODES[graph.acceptance].fixes_ids:
        return inputs
    cold = builder.op("Where", early, builder.f32(0.0), inputs["temperature"], name="judged_temperature")
    return inputs | {"temperature": cold}


def early_results(
    builder: Builder,
    logits: ir.Value,
    inputs: Mapping[str, ir.Value],
    *,
    early: ir.Value,
    own: ir.Value,
    graph: GraphPlan,
) -> dict[str, ir.Value]:
    """Return `next_token`, and what an early draft was drawn from, by name of the output.

    Args:
        builder: where the nodes go.
        logits: float32 [B, R, V]; R is 1 in a call that ends early.
        inputs: of the graph by name.
        early: bool scalar.
        own: int64 [B], `next_token` of the verification.
        graph: decides how drafts are picked.
    """
    mode = MODES[graph.acceptance]
    if mode.fixes_ids:
        return {"next_token": own}
    names = ("next_token", *(spec.name for spec in law_specs(graph)))
    arguments = [inputs[name] for name in draft_inputs(graph)]

    def drafted(then: Builder) -> tuple[ir.Value, ...]:
        return then.ops(DRAFT, logits, *arguments, outputs=[f"{name}_early" for name in names], domain=DOMAIN)

    otherwise: tuple[ir.Value, ...] = (own,)
    if mode.takes_q:
        rows = builder.op("Shape", inputs["num_tokens"], name="num_rows")  # [1]
        shape = builder.op("Concat", rows, builder.i64(graph.support), name="law_shape", axis=0)
        none = builder.op("Expand", builder.i64_scalar(-1), shape, name="no_ids")
        otherwise = (own, none, builder.op("Expand", builder.f32(0.0), shape, name="no_probs"))
    return dict(zip(names, if_true(builder, early, otherwise, "draft", drafted), strict=True))
