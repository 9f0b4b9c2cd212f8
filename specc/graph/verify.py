"""Verification inside the graph: the model-local function `specc::Verify`, rules 4 to 8 of docs/engine-abi.md."""

from __future__ import annotations

from typing import Final

import onnx_ir as ir

from specc.graph.builder import DOMAIN, IR_VERSION, Builder, declared
from specc.graph.interface import SAMPLING_INPUTS
from specc.graph.noise import Int64Arithmetic, noise_function
from specc.graph.picks import Sampling, coupled_picks, greedy_picks
from specc.plan.plan import GraphPlan

VERIFY: Final = "Verify"
ROW_INPUTS: Final = ("input_ids", "num_tokens", "past_lengths", "logit_rows", "num_draft")
VERIFY_OUTPUTS: Final = ("tokens", "num_accepted", "next_token", "next_past", "accepted_rows")


def verify_inputs(graph: GraphPlan) -> tuple[str, ...]:
    """Return the names of the function's inputs after `logits`."""
    sampling = tuple(name for name, _, _ in SAMPLING_INPUTS) if graph.acceptance == "coupled" else ()
    return (*ROW_INPUTS, *sampling)


def verify_functions(graph: GraphPlan, vocab_size: int) -> tuple[ir.Function, ...]:
    """Return the functions that `specc::Verify` calls, and it.

    Args:
        graph: decides the kind of acceptance.
        vocab_size: V, the width of the logits: the tokenizer's size.
    """
    verify = _verify_function(graph, vocab_size)
    # A function stands after those it calls: readers that go through the list once need it so.
    return (verify,) if graph.acceptance == "greedy" else (noise_function(Int64Arithmetic()), verify)


def verify_graph(graph: GraphPlan, vocab_size: int) -> ir.Model:
    """Return the verification alone as a model: `logits` float32 [B, R, V] is an input. For tests and measurements."""
    sampling = {name: dtype for name, dtype, _ in SAMPLING_INPUTS}
    shapes = {"input_ids": ("B", "S"), "logit_rows": ("B", "R"), "tokens": ("B", "R"), "accepted_rows": ("B", "R")}
    inputs = [declared("logits", "f32", ("B", "R", vocab_size))]
    inputs += [declared(name, sampling.get(name, "i64"), shapes.get(name, ("B",))) for name in verify_inputs(graph)]
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
    if graph.acceptance == "greedy":
        picks = greedy_picks(builder, logits, vocab_size)
    else:
        position = builder.op("Add", rows, builder.i64_scalar(1), name="position")
        sampling = Sampling(**{name: inputs[name] for name, _, _ in SAMPLING_INPUTS}, position=position)
        picks = coupled_picks(builder, logits, sampling, vocab_size, graph.candidates)
    outputs = _accepted(builder, picks, rows, inputs)
    return builder.function(VERIFY, (logits, *inputs.values()), outputs)


def _accepted(builder: Builder, picks: ir.Value, rows: ir.Value, inputs: dict[str, ir.Value]) -> tuple[ir.Value, ...]:
    """Return VERIFY_OUTPUTS from the picks and the cache rows of the logit rows, both int64 [B, R]."""
    zero, one, none = builder.i64_scalar(0), builder.i64_scalar(1), builder.i64_scalar(-1)
    active = builder.op("Greater", inputs["num_tokens"], zero, name="active")  # [B]
    drafted = builder.op("Where", active, inputs["num_draft"], zero, name="drafted")  # [B]
    width = builder.op("Squeeze", builder.op("Shape", picks, name="width", start=1, end=2), name="num_rows")
    column = builder.op("Range", zero, width, one, name="column_index")  # [R]
    # The draft judged at row j is the token at logit row j+1; the last row judges none, so it may look at itself.
    last = builder.op("Sub", width, one, name="last_column")
    following = builder.op("Min", builder.op("Add", column, one, name="next_column"), last, name="following")
    draft_rows = builder.op("Gather", inputs["logit_rows"], following, name="draft_rows", axis=1)  # [B, R]
    drafts = builder.op("GatherElements", inputs["input_ids"], draft_rows, name="drafts", axis=1)  # [B, R]
    is_draft = builder.op("Less", column, _column(builder, drafted), name="is_draft")
    matches = builder.op("And", builder.op("Equal", drafts, picks, name="equal"), is_draft, name="matches")
    misses = builder.op("Cast", builder.op("Not", matches, name="misses"), name="miss", to=ir.DataType.INT64)
    unbroken = builder.op("Equal", builder.op("CumSum", misses, one, name="missed"), zero, name="unbroken")
    counted = builder.op("Cast", unbroken, name="accepted", to=ir.DataType.INT64)
    num_accepted = builder.op("ReduceSum", counted, builder.i64(1), name="num_accepted", keepdims=0)  # [B]
    accepted = _column(builder, num_accepted)  # [B, 1]
    emitted = builder.op("LessOrEqual", column, accepted, name="is_emitted")
    emitted = builder.op("And", emitted, _column(builder, active), name="emitted")  # [B, R]
    tokens = builder.op("Where", emitted, picks, none, name="tokens")
    own = builder.op("GatherElements", tokens, accepted, name="own_token", axis=1)  # [B, 1]
    next_token = builder.op("Squeeze", own, builder.i64(1), name="next_token")
    accepted_rows = builder.op("Where", emitted, rows, none, name="accepted_rows")
    anchor = builder.op("Gather", rows, zero, name="anchor_row", axis=1)  # [B]
    last_kept = builder.op("Add", anchor, num_accepted, name="last_kept_row")
    beyond = builder.op("Add", last_kept, one, name="row_beyond")
    next_past = builder.op("Where", active, beyond, inputs["past_lengths"], name="next_past")
    return tokens, num_accepted, next_token, next_past, accepted_rows


def _column(builder: Builder, row: ir.Value) -> ir.Value:
    return builder.op("Unsqueeze", row, builder.i64(1), name="column")  # [B, 1]
