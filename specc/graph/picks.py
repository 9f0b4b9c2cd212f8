"""The target's own pick at each logit row: greedy, or Gumbel-max under the row's sampling parameters.

Rules 5 to 7 of docs/engine-abi.md; `specc/speculation/sampling.py` is the oracle. A row's pick depends on that row
alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import onnx_ir as ir

from specc.graph.builder import DOMAIN, Builder
from specc.graph.noise import NOISE

# Temperatures below this are greedy.
GREEDY_BELOW: Final = 1e-5


@dataclass(frozen=True)
class Sampling:
    """The sampling inputs of the batch, all [B] but position.

    Attributes:
        position: int64 [B, R], absolute position of the token to be emitted.
    """

    temperature: ir.Value
    top_k: ir.Value
    top_p: ir.Value
    min_p: ir.Value
    seed: ir.Value
    position: ir.Value


@dataclass(frozen=True)
class RowKinds:
    """Which rows sample their candidates or the whole vocabulary, bool [B]; the others are greedy.

    Attributes:
        temperature: float32 [B], 1 in greedy rows.
    """

    partial: ir.Value
    whole: ir.Value
    temperature: ir.Value


@dataclass(frozen=True)
class Scaled:
    """Logits [B, R, V], their maximum [B, R, 1] and the temperature [B, 1, 1] by which differences are divided."""

    logits: ir.Value
    largest: ir.Value
    temperature: ir.Value
    vocab_size: int

    def of(self, builder: Builder, logits: ir.Value) -> ir.Value:
        """Return (logits - maximum) / temperature."""
        difference = builder.op("Sub", logits, self.largest, name="difference")
        return builder.op("Div", difference, self.temperature, name="scaled")


def lowest_id_at_maximum(builder: Builder, values: ir.Value, ids: ir.Value, last: ir.Value) -> ir.Value:
    """Return the lowest id whose value equals the maximum of the last axis.

    In arithmetic, since no back end states which index its ArgMax or TopK returns on ties.

    Args:
        builder: where the nodes go.
        values: float32 [B, R, K].
        ids: integers [K] or [B, R, K].
        last: scalar of the same dtype, the largest possible id.

    Returns:
        Integers [B, R], at most `last` even if the values are no numbers.
    """
    largest = builder.op("ReduceMax", values, builder.i64(-1), name="largest", keepdims=1)  # [B, R, 1]
    equal = builder.op("Equal", values, largest, name="is_largest")
    others = builder.op("Where", equal, ids, last, name="ids_at_largest")
    return builder.op("ReduceMin", others, builder.i64(-1), name="lowest_id", keepdims=0)


def greedy_picks(builder: Builder, logits: ir.Value, vocab_size: int) -> ir.Value:
    """Return the greedy picks, int64 [B, R], of logits float32 [B, R, V]."""
    return _lowest_of_vocabulary(builder, logits, vocab_size)


def coupled_picks(builder: Builder, logits: ir.Value, sampling: Sampling, vocab_size: int, candidates: int) -> ir.Value:
    """Return each row's own pick, int64 [B, R]: sampled where its temperature says so, greedy elsewhere.

    Args:
        builder: where the nodes go.
        logits: float32 [B, R, V].
        sampling: parameters of the rows.
        vocab_size: V.
        candidates: K of truncated sampling.

    All work of sampling stands under a scalar If, and that of either kind under another, so that a batch pays for what
    its rows ask.
    """
    greedy = greedy_picks(builder, logits, vocab_size)

    def sampled_or_greedy(then: Builder) -> tuple[ir.Value]:
        kinds = row_kinds(then, sampling)
        scaled = scaled_logits(then, logits, kinds, vocab_size)
        (from_candidates,) = if_any(
            then, kinds.partial, (greedy,), "candidates", lambda b: (_candidate_picks(b, scaled, sampling, candidates),)
        )
        (from_whole,) = if_any(
            then, kinds.whole, (greedy,), "vocabulary", lambda b: (_vocabulary_picks(b, scaled, sampling),)
        )
        picks = then.op("Where", then.column(kinds.partial), from_candidates, greedy, name="picks_candidates")
        return (then.op("Where", then.column(kinds.whole), from_whole, picks, name="picks_by_kind"),)

    return if_sampled(builder, sampling, (greedy,), sampled_or_greedy)[0]


def _vocabulary_picks(builder: Builder, scaled: Scaled, sampling: Sampling) -> ir.Value:
    zero, one = builder.i64_scalar(0), builder.i64_scalar(1)
    ids = builder.op("Range", zero, builder.i64_scalar(scaled.vocab_size), one, name="vocabulary")  # [V]
    noise = builder.op(NOISE, sampling.seed, sampling.position, ids, name="noise", domain=DOMAIN)  # [B, R, V]
    perturbed = builder.op("Add", scaled.of(builder, scaled.logits), noise, name="perturbed")
    return _lowest_of_vocabulary(builder, perturbed, scaled.vocab_size)


def _lowest_of_vocabulary(builder: Builder, values: ir.Value, vocab_size: int) -> ir.Value:
    """Return the lowest id of the maximum, int64 [B, R]; the ids of the vocabulary are int32, half as much to read."""
    zero, end, one = (builder.constant(np.array(n, dtype=np.int32), "i32") for n in (0, vocab_size, 1))
    ids = builder.op("Range", zero, end, one, name="vocabulary_i32")  # [V]
    last = builder.constant(np.array(vocab_size - 1, dtype=np.int32), "i32")
    lowest = lowest_id_at_maximum(builder, values, ids, last)
    return builder.op("Cast", lowest, name="lowest_id_i64", to=ir.DataType.INT64)


def _candidate_picks(builder: Builder, scaled: Scaled, sampling: Sampling, candidates: int) -> ir.Value:
    # Equal values come in the order of their indices: the operator's specification says so.
    logits, ids = builder.ops(
        "TopK", scaled.logits, builder.i64(candidates), outputs=("candidate_logits", "candidate_ids"), axis=-1
    )  # [B, R, K]
    z = scaled.of(builder, logits)
    keep = kept_candidates(builder, z, sampling, candidates)
    noise = builder.op(NOISE, sampling.seed, sampling.position, ids, name="noise", domain=DOMAIN)  # [B, R, K]
    perturbed = builder.op("Add", z, noise, name="perturbed")
    kept = builder.op("Where", keep, perturbed, builder.f32(-np.inf), name="kept")
    return lowest_id_at_maximum(builder, kept, ids, builder.i64_scalar(scaled.vocab_size - 1))


def kept_candidates(builder: Builder, z: ir.Value, sampling: Sampling, candidates: int) -> ir.Value:
    """Return which candidates stay after top-k, then top-p, then min-p, bool [B, R, K]; z is descending, z[0] = 0."""
    zero, one = builder.i64_scalar(0), builder.i64_scalar(1)
    rank = builder.op("Range", zero, builder.i64_scalar(candidates), one, name="rank")  # [K]
    off = builder.op("LessOrEqual", sampling.top_k, zero, name="top_k_off")
    limit = builder.op("Where", off, builder.i64_scalar(candidates), sampling.top_k, name="top_k_limit")  # [B]
    in_top_k = builder.op("Less", rank, builder.cube(limit), name="in_top_k")  # [B, 1, K]
    weight = builder.op("Where", in_top_k, builder.op("Exp", z, name="ratio"), builder.f32(0.0), name="weight")
    total = builder.op("ReduceSum", weight, builder.i64(-1), name="total", keepdims=1)
    probability = builder.op("Div", weight, total, name="probability")
    before = builder.op("CumSum", probability, builder.i64_scalar(-1), name="probability_before", exclusive=1)
    top_p = builder.cube(sampling.top_p)
    reached = builder.op("Less", before, top_p, name="before_top_p")
    # A rounded sum may reach 1 before the last candidate; top_p 1 is off.
    top_p_off = builder.op("GreaterOrEqual", top_p, builder.f32(1.0), name="top_p_off")
    in_top_p = builder.op("Or", reached, top_p_off, name="in_top_p")
    # weight is p / max p, since z[0] = 0.
    in_min_p = builder.op("GreaterOrEqual", weight, builder.cube(sampling.min_p), name="in_min_p")
    both = builder.op("And", in_top_k, builder.op("And", in_top_p, in_min_p, name="in_p"), name="in_all")
    return builder.op("Or", both, builder.op("Equal", rank, zero, name="is_first"), name="keep")


def row_kinds(builder: Builder, sampling: Sampling) -> RowKinds:
    """Return which rows are greedy, sample the candidates, sample the vocabulary."""
    cold = builder.op("Less", sampling.temperature, builder.f32(GREEDY_BELOW), name="is_greedy")
    sampled = builder.op("Not", cold, name="is_sampled")  # [B]
    truncated = _is_truncated(builder, sampling)  # [B]
    whole = builder.op("And", sampled, builder.op("Not", truncated, name="is_whole"), name="samples_whole")
    partial = builder.op("And", sampled, truncated, name="samples_candidates")
    temperature = builder.op("Where", cold, builder.f32(1.0), sampling.temperature, name="safe_temperature")
    return RowKinds(partial, whole, temperature)


def scaled_logits(builder: Builder, logits: ir.Value, kinds: RowKinds, vocab_size: int) -> Scaled:
    """Return the logits with their maximum and the temperature of the rows."""
    largest = builder.op("ReduceMax", logits, builder.i64(-1), name="largest_logit", keepdims=1)  # [B, R, 1]
    return Scaled(logits, largest, builder.cube(kinds.temperature), vocab_size)


def _is_truncated(builder: Builder, sampling: Sampling) -> ir.Value:
    top_k = builder.op("Greater", sampling.top_k, builder.i64_scalar(0), name="has_top_k")
    top_p = builder.op("Less", sampling.top_p, builder.f32(1.0), name="has_top_p")
    min_p = builder.op("Greater", sampling.min_p, builder.f32(0.0), name="has_min_p")
    return builder.op("Or", builder.op("Or", top_k, top_p, name="has_top"), min_p, name="is_truncated")


def if_sampled(
    builder: Builder,
    sampling: Sampling,
    greedy: Sequence[ir.Value],
    body: Callable[[Builder], Sequence[ir.Value]],
) -> tuple[ir.Value, ...]:
    """Return body's values if the temperature of any row asks for sampling, else `greedy`, as many, by a scalar If."""
    hottest = builder.op("ReduceMax", sampling.temperature, name="hottest", keepdims=0)
    samples = builder.op("GreaterOrEqual", hottest, builder.f32(GREEDY_BELOW), name="any_samples")
    return if_true(builder, samples, greedy, "sampled", body)


def if_any(
    builder: Builder,
    rows: ir.Value,
    otherwise: Sequence[ir.Value],
    name: str,
    body: Callable[[Builder], Sequence[ir.Value]],
) -> tuple[ir.Value, ...]:
    """Return body's values if any row [B] asks for them, else `otherwise`, as many of them, by a scalar If."""
    numbers = builder.op("Cast", rows, name=f"{name}.asked", to=ir.DataType.INT32)
    most = builder.op("ReduceMax", numbers, name=f"{name}.any_number", keepdims=0)
    condition = builder.op("Cast", most, name=f"{name}.any", to=ir.DataType.BOOL)
    return if_true(builder, condition, otherwise, name, body)


def if_true(
    builder: Builder,
    condition: ir.Value,
    otherwise: Sequence[ir.Value],
    name: str,
    body: Callable[[Builder], Sequence[ir.Value]],
) -> tuple[ir.Value, ...]:
    """Return body's values if the condition, a bool scalar, is true, else `otherwise`, as many of them, by an If."""
    then = builder.branch()
    with then.scope(name):
        then_graph = then.graph(f"{name}_then", (), body(then))
    other = builder.branch()
    with other.scope(f"{name}.skipped"):
        other_graph = other.graph(f"{name}_else", (), [other.op("Identity", value) for value in otherwise])
    outputs = [f"{name}.picks", *(f"{name}.value_{i}" for i in range(1, len(otherwise)))]
    return builder.ops("If", condition, outputs=outputs, then_branch=then_graph, else_branch=other_graph)
