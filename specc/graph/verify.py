"""Verification inside the graph: the model-local function `specc::Verify`, rules 4 to 9 of docs/engine-abi.md."""

from __future__ import annotations

from typing import Final

import onnx_ir as ir

from specc.bundle.manifest import Dimension
from specc.graph.builder import DOMAIN, IR_VERSION, Builder, declared
from specc.graph.interface import Q_INPUTS, SAMPLING_INPUTS
from specc.graph.judged import judged
from specc.graph.noise import Int64Arithmetic, noise_functions
from specc.graph.picks import Sampling, coupled_picks, greedy_picks
from specc.graph.rules import Chain, leading_run
from specc.plan.plan import GraphPlan
from specc.speculation.modes import MODES

VERIFY: Final = "Verify"
ROW_INPUTS: Final = ("input_ids", "num_tokens", "past_lengths", "logit_rows", "num_draft")
VERIFY_OUTPUTS: Final = ("tokens", "num_accepted", "next_token", "next_past", "accepted_rows")


def verify_inputs(graph: GraphPlan) -> tuple[str, ...]:
    """Return the names of the function's inputs after `logits`."""
    mode = MODES[graph.acceptance]
    sampling = tuple(name for name, _, _ in SAMPLING_INPUTS) if mode.samples else ()
    return (*ROW_INPUTS, *sampling, *(tuple(name for name, _, _ in Q_INPUTS) if mode.takes_q else ()))


def verify_functions(graph: GraphPlan, vocab_size: int) -> tuple[ir.Function, ...]:
    """Return the functions that `specc::Verify` calls, and it.

    Args:
        graph: decides the kind of acceptance.
        vocab_size: V, the width of the logits: the tokenizer's size.
    """
    # A function stands after those it calls: readers that go through the list once need it so.
    return (*noise_functions(graph, Int64Arithmetic()), _verify_function(graph, vocab_size))


def verify_graph(graph: GraphPlan, vocab_size: int) -> ir.Model:
    """Return the verification alone as a model: `logits` float32 [B, R, V] is an input. For tests and measurements."""
    dtypes = {name: dtype for name, dtype, _ in (*SAMPLING_INPUTS, *Q_INPUTS)}
    rows = ("B", "R")
    q_shape: tuple[Dimension, ...] = (*rows, "Kq" if graph.capacity is None else graph.support)
    shapes: dict[str, tuple[Dimension, ...]] = {"input_ids": ("B", "S"), "logit_rows": rows, "tokens": rows}
    shapes |= {"accepted_rows": rows} | {name: q_shape for name, _, _ in Q_INPUTS}
    inputs = [declared("logits", "f32", ("B", "R", vocab_size))]
    inputs += [declared(name, dtypes.get(name, "i64"), shapes.get(name, ("B",))) for name in verify_inputs(graph)]
    builder = Builder()
    outputs = verified(builder, inputs[0], {str(value.name): value for value in inputs[1:]}, graph)
    for value in outputs:
        value.type, value.shape = ir.TensorType(ir.DataType.INT64), ir.Shape(shapes.get(str(value.name), ("B",)))
    main = builder.graph("specc_verify", inputs, outputs)
    return ir.Model(main, ir_version=IR_VERSION, producer_name="specc", functions=verify_functions(graph, vocab_size))


def verified(builder: Builder, logits: ir.Value, inputs: dict[str, ir.Value], graph: GraphPlan) -> tuple[ir.Value, ...]:
    """Call `specc::Verify` and return VERIFY_OUTPUTS.

    Args:
        builder: where the call goes.
        logits: float32 [B, R, V].
        inputs: the graph's inputs by name.
        graph: decides the kind of acceptance.
    """
    arguments = [inputs[name] for name in verify_inputs(graph)]
    return builder.ops(VERIFY, logits, *arguments, outputs=VERIFY_OUTPUTS, domain=DOMAIN)


def _verify_function(graph: GraphPlan, vocab_size: int) -> ir.Function:
    builder = Builder()
    # A function's inputs have no types in the file; passes read this one's width.
    logits = declared("logits", "f32", ("B", "R", vocab_size))
    inputs = {name: ir.Value(name=name) for name in verify_inputs(graph)}
    past = builder.op("Unsqueeze", inputs["past_lengths"], builder.i64(1), name="past_column")  # [B, 1]
    rows = builder.op("Add", past, inputs["logit_rows"], name="cache_rows")  # [B, R]
    chain = _chain(builder, inputs)
    mode = MODES[graph.acceptance]
    if not mode.samples:
        ids = greedy_picks(builder, logits, vocab_size)
        accepted = leading_run(builder, builder.op("Equal", chain.drafts, ids, name="equal"), chain)
    else:
        position = builder.op("Add", rows, builder.i64_scalar(1), name="position")
        sampling = Sampling(**{name: inputs[name] for name, _, _ in SAMPLING_INPUTS}, position=position)
        if mode.fixes_ids:
            ids = coupled_picks(builder, logits, sampling, vocab_size, graph.candidates)
            accepted = leading_run(builder, builder.op("Equal", chain.drafts, ids, name="equal"), chain)
        else:
            q = (inputs["q_ids"], inputs["q_probs"]) if mode.takes_q else None
            judgement = judged(builder, logits, sampling, chain, q, graph=graph, vocab_size=vocab_size)
            accepted = judgement.accepted
            before = builder.op("Less", chain.column, builder.column(accepted), name="is_accepted")
            ids = builder.op("Where", before, chain.drafts, builder.column(judgement.own), name="emitted_ids")
    outputs = _emitted(builder, ids, accepted, rows, chain, inputs=inputs)
    return builder.function(VERIFY, (logits, *inputs.values()), outputs)


def _chain(builder: Builder, inputs: dict[str, ir.Value]) -> Chain:
    zero, one = builder.i64_scalar(0), builder.i64_scalar(1)
    active = builder.op("Greater", inputs["num_tokens"], zero, name="is_active")  # [B]
    drafted = builder.op("Where", active, inputs["num_draft"], zero, name="drafted")  # [B]
    shape = builder.op("Shape", inputs["logit_rows"], name="width", start=1, end=2)
    width = builder.op("Squeeze", shape, name="num_rows")
    column = builder.op("Range", zero, width, one, name="column_index")  # [R]
    # The draft judged at row j is the token at logit row j+1; the last row judges none, so it may look at itself.
    last = builder.op("Sub", width, one, name="last_column")
    following = builder.op("Min", builder.op("Add", column, one, name="next_column"), last, name="following")
    draft_rows = builder.op("Gather", inputs["logit_rows"], following, name="draft_rows", axis=1)  # [B, R]
    drafts = builder.op("GatherElements", inputs["input_ids"], draft_rows, name="drafts", axis=1)  # [B, R]
    is_draft = builder.op("Less", column, builder.column(drafted), name="is_draft")
    return Chain(column, drafts, drafted, is_draft, following)


def _emitted(
    builder: Builder,
    ids: ir.Value,
    accepted: ir.Value,
    rows: ir.Value,
    chain: Chain,
    *,
    inputs: dict[str, ir.Value],
) -> tuple[ir.Value, ...]:
    """Return VERIFY_OUTPUTS.

    Args:
        builder: where the nodes go.
        ids: int64 [B, R], the accepted drafts and the target's own token in its place.
        accepted: int64 [B], drafts accepted.
        rows: int64 [B, R], cache rows of the logit rows.
        chain: the drafts.
        inputs: of the function by name.
    """
    one, none = builder.i64_scalar(1), builder.i64_scalar(-1)
    active = builder.op("Greater", inputs["num_tokens"], builder.i64_scalar(0), name="active")  # [B]
    last = builder.column(accepted)  # [B, 1]
    emitted = builder.op("LessOrEqual", chain.column, last, name="is_emitted")
    emitted = builder.op("And", emitted, builder.column(active), name="emitted")  # [B, R]
    tokens = builder.op("Where", emitted, ids, none, name="tokens")
    own = builder.op("GatherElements", tokens, last, name="own_token", axis=1)  # [B, 1]
    next_token = builder.op("Squeeze", own, builder.i64(1), name="next_token")
    accepted_rows = builder.op("Where", emitted, rows, none, name="accepted_rows")
    anchor = builder.op("Gather", rows, builder.i64_scalar(0), name="anchor_row", axis=1)  # [B]
    last_kept = builder.op("Add", anchor, accepted, name="last_kept_row")
    beyond = builder.op("Add", last_kept, one, name="row_beyond")
    next_past = builder.op("Where", active, beyond, inputs["past_lengths"], name="next_past")
    return tokens, accepted, next_token, next_past, accepted_rows
