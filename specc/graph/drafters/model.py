"""The draft graph: a decoder over in-place caches and its pick of the next draft. docs/engine-abi.md is its contract.

It serves a standalone draft model and, over the target's own weights and caches, the first layers of the target.
"""

from __future__ import annotations

from typing import Final

import onnx_ir as ir

from specc.checkpoint.facts import ModelFacts
from specc.graph.builder import DOMAIN, IR_VERSION, Builder, declared
from specc.graph.decoder import decoded, head_logits
from specc.graph.drafters.draw import drawn_drafts
from specc.graph.drafters.interface import draft_interface
from specc.graph.interface import SAMPLING_INPUTS
from specc.graph.noise import Int64Arithmetic, noise_function
from specc.graph.picks import Sampling, coupled_picks, greedy_picks
from specc.plan.plan import GraphPlan
from specc.speculation.modes import MODES
from specc.speculation.noise import Stream

DRAFT: Final = "Draft"


def draft_graph(facts: ModelFacts, graph: GraphPlan) -> ir.Model:
    """Return the canonical draft graph, the same for every back end; lowering passes make it theirs.

    Args:
        facts: of the draft; weights are initializers without data, by canonical name, as in the target graph.
        graph: dtype, capacity, acceptance and candidates.
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


def draft_inputs(graph: GraphPlan) -> tuple[str, ...]:
    """Return the names of the function's inputs after `logits`."""
    sampling = tuple(name for name, _, _ in SAMPLING_INPUTS) if MODES[graph.acceptance].samples else ()
    return ("num_tokens", "past_lengths", *sampling)


def draft_functions(graph: GraphPlan, vocab_size: int) -> tuple[ir.Function, ...]:
    """Return the functions that `specc::Draft` calls, and it.

    Args:
        graph: decides how drafts are picked.
        vocab_size: V, the width of the logits: the tokenizer's size.
    """
    draft = _draft_function(graph, vocab_size)
    mode = MODES[graph.acceptance]
    if not mode.samples:
        return (draft,)
    stream = Stream.DRAFT if mode.takes_q else Stream.TARGET
    return noise_function(Int64Arithmetic(), stream), draft


def _draft_function(graph: GraphPlan, vocab_size: int) -> ir.Function:
    builder = Builder()
    logits = declared("logits", "f32", ("B", 1, vocab_size))
    inputs = {name: ir.Value(name=name) for name in draft_inputs(graph)}
    q: tuple[ir.Value, ...] = ()
    if not MODES[graph.acceptance].samples:
        picks = greedy_picks(builder, logits, vocab_size)
    else:
        # The draft stands right after the last valid token.
        position = builder.op("Add", inputs["past_lengths"], inputs["num_tokens"], name="next_position")
        column = builder.op("Unsqueeze", position, builder.i64(1), name="position")  # [B, 1]
        sampling = Sampling(**{name: inputs[name] for name, _, _ in SAMPLING_INPUTS}, position=column)
        if MODES[graph.acceptance].takes_q:
            picks, ids, probs = drawn_drafts(builder, logits, sampling, vocab_size, graph.candidates)
            q = (ids, probs)
        else:
            # The target's own noise and processing: a draft is right where both models then pick the same id.
            picks = coupled_picks(builder, logits, sampling, vocab_size, graph.candidates)
    pick = builder.op("Squeeze", picks, builder.i64(1), name="pick")  # [B]
    active = builder.op("Greater", inputs["num_tokens"], builder.i64_scalar(0), name="active")
    token = builder.op("Where", active, pick, builder.i64_scalar(-1), name="next_token")
    return builder.function(DRAFT, (logits, *inputs.values()), (token, *q))
