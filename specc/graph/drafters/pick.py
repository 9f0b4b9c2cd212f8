"""The pick of the next draft inside the graph: the model-local function `specc::Draft`."""

from __future__ import annotations

from typing import Final

import onnx_ir as ir

from specc.graph.builder import Builder, declared
from specc.graph.drafters.draw import drawn_drafts
from specc.graph.interface import SAMPLING_INPUTS
from specc.graph.noise import Int64Arithmetic, noise_functions
from specc.graph.picks import Sampling, coupled_picks, greedy_picks
from specc.plan.plan import GraphPlan
from specc.speculation.modes import MODES

DRAFT: Final = "Draft"


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
    return (*noise_functions(graph, Int64Arithmetic()), draft_function(graph, vocab_size))


def draft_function(graph: GraphPlan, vocab_size: int) -> ir.Function:
    """Return `specc::Draft`: the pick of the next draft from its logits, float32 [B, 1, V], and the law of it."""
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
            picks, ids, probs = drawn_drafts(builder, logits, sampling, vocab_size, graph)
            q = (ids, probs)
        else:
            # The target's own noise and processing: a draft is right where both models then pick the same id.
            picks = coupled_picks(builder, logits, sampling, vocab_size, graph.candidates)
    pick = builder.op("Squeeze", picks, builder.i64(1), name="pick")  # [B]
    active = builder.op("Greater", inputs["num_tokens"], builder.i64_scalar(0), name="active")
    token = builder.op("Where", active, pick, builder.i64_scalar(-1), name="next_token")
    return builder.function(DRAFT, (logits, *inputs.values()), (token, *q))
