"""Verification by probabilities: rejection, block and typical acceptance (docs/engine-abi.md rule 9).

Only one row of a sequence needs a token of its own: the one after the accepted drafts. So the drafts are judged by
look-ups first, and what costs the vocabulary, noise most of all, is computed for that row alone.
`specc/speculation/judged.py` is the oracle.
"""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from specc.errors import SpeccBug
from specc.graph.builder import DOMAIN, Builder
from specc.graph.draft_law import DraftLaw, draft_law
from specc.graph.law import RowLaw, candidate_law, vocabulary_law
from specc.graph.noise import RESIDUAL_NOISE
from specc.graph.picks import (
    Sampling,
    greedy_picks,
    if_any,
    if_sampled,
    lowest_id_at_maximum,
    row_kinds,
    scaled_logits,
)
from specc.graph.rules import Chain, Verdict, block_verdict, leading_run, rejection_verdict, typical_verdict
from specc.plan.plan import GraphPlan


@dataclass(frozen=True)
class Judgement:
    """What a call accepts and emits: drafts accepted and the target's own token after them, both int64 [B]."""

    accepted: ir.Value
    own: ir.Value


@dataclass(frozen=True)
class _Left:
    """What the own token of each sequence is drawn from: weight * p - q, positive parts, at the row after the accepted.

    Attributes:
        row: int64 [B, 1], that row.
        weight: float32 [B, 1], or None for 1.
        support: ids int64 [B, Kq] and q float32 [B, Kq], 0 where all drafts were accepted; None where no q is taken.
    """

    row: ir.Value
    weight: ir.Value | None
    support: tuple[ir.Value, ir.Value] | None


def judged(
    builder: Builder,
    logits: ir.Value,
    sampling: Sampling,
    chain: Chain,
    q: tuple[ir.Value, ir.Value] | None,
    *,
    graph: GraphPlan,
    vocab_size: int,
) -> Judgement:
    """Return what a call accepts and emits.

    Args:
        builder: where the nodes go.
        logits: float32 [B, R, V].
        sampling: parameters of the rows.
        chain: the drafts.
        q: q_ids int64 [B, R, Kq] and q_probs float32 [B, R, Kq]; None for a mode that does not take them.
        graph: decides the mode.
        vocab_size: V.
    """
    picks = greedy_picks(builder, logits, vocab_size)
    right = builder.op("Equal", chain.drafts, picks, name="equal")
    accepted = leading_run(builder, right, chain)
    own = builder.op("GatherElements", picks, builder.column(accepted), name="greedy_token", axis=1)
    greedy = (accepted, builder.op("Squeeze", own, builder.i64(1), name="greedy_own"))
    with_entropy = graph.typical is not None

    def from_law(then: Builder, law: RowLaw) -> tuple[ir.Value, ir.Value]:
        drafts = None if q is None else draft_law(then, *q, chain.drafts, vocab_size)
        verdict = _verdict(then, law, drafts, chain, sampling, graph=graph)
        left = _left(then, verdict, drafts, chain)
        draw = _vocabulary_token if law.candidates is None else _candidate_token
        return verdict.accepted, draw(then, law, left, sampling)

    def by_kind(then: Builder) -> list[ir.Value]:
        kinds = row_kinds(then, sampling)
        scaled = scaled_logits(then, logits, kinds, vocab_size)

        def from_candidates(inner: Builder) -> tuple[ir.Value, ir.Value]:
            return from_law(inner, candidate_law(inner, scaled, sampling, graph.candidates, with_entropy=with_entropy))

        def from_vocabulary(inner: Builder) -> tuple[ir.Value, ir.Value]:
            return from_law(inner, vocabulary_law(inner, scaled, with_entropy=with_entropy))

        partial = if_any(then, kinds.partial, greedy, "candidates", from_candidates)
        whole = if_any(then, kinds.whole, greedy, "vocabulary", from_vocabulary)
        results = []
        for name, values in zip(("accepted", "own"), zip(greedy, partial, whole, strict=True), strict=True):
            some = then.op("Where", kinds.partial, values[1], values[0], name=f"{name}_by_candidates")
            results.append(then.op("Where", kinds.whole, values[2], some, name=f"{name}_by_kind"))
        return results

    return Judgement(*if_sampled(builder, sampling, greedy, by_kind))


def _verdict(
    builder: Builder, law: RowLaw, q: DraftLaw | None, chain: Chain, sampling: Sampling, *, graph: GraphPlan
) -> Verdict:
    if graph.typical is not None:
        return typical_verdict(builder, law, chain, graph.typical)
    if q is None:
        raise SpeccBug(f"acceptance {graph.acceptance} judges by q")
    if graph.acceptance == "block":
        return block_verdict(builder, law, q, chain, sampling, max_rows=graph.max_logit_rows)
    return rejection_verdict(builder, law, q, chain, sampling)


def _left(builder: Builder, verdict: Verdict, q: DraftLaw | None, chain: Chain) -> _Left:
    row = builder.column(verdict.accepted)  # [B, 1]
    if q is None:
        return _Left(row, None, None)
    rejects = builder.op("Less", row, builder.column(chain.drafted), name="rejects")  # [B, 1]
    ids = builder.op("GatherND", q.ids, row, name="support_ids", batch_dims=1)  # [B, Kq]
    probs = builder.op("GatherND", q.probs, row, name="support_probs", batch_dims=1)
    probs = builder.op("Where", rejects, probs, builder.f32(0.0), name="q_to_take")
    if verdict.weight is None:
        return _Left(row, None, (ids, probs))
    weight = builder.op("GatherElements", verdict.weight, row, name="weight_of_row", axis=1)
    return _Left(row, builder.op("Where", rejects, weight, builder.f32(1.0), name="weight_or_one"), (ids, probs))


def _vocabulary_token(builder: Builder, law: RowLaw, left: _Left, sampling: Sampling) -> ir.Value:
    """Return a token of the whole vocabulary, int64 [B]."""
    scaled = law.scaled
    logits = builder.op("GatherND", scaled.logits, left.row, name="row_logits", batch_dims=1)  # [B, V]
    largest = builder.op("GatherND", scaled.largest, left.row, name="row_largest", batch_dims=1)  # [B, 1]
    temperature = builder.op("Squeeze", scaled.temperature, builder.i64(2), name="row_temperature")
    z = builder.op("Div", builder.op("Sub", logits, largest, name="row_difference"), temperature, name="row_z")
    total = builder.op("GatherND", law.total, left.row, name="row_total", batch_dims=1)
    p = builder.op("Div", builder.op("Exp", z, name="row_weight"), total, name="row_p")  # [B, V]
    weights = p
    if left.support is not None:
        ids, q = left.support
        grown = p if left.weight is None else builder.op("Mul", p, left.weight, name="grown_p")
        at = builder.op("GatherElements", grown, ids, name="p_at_support", axis=1)
        rest = builder.op("Max", builder.op("Sub", at, q, name="over_q"), builder.f32(0.0), name="left_at_support")
        taken = builder.op("ScatterElements", grown, ids, rest, name="left", axis=1)
        weights = _or_all(builder, taken, p)
    size = builder.i64_scalar(scaled.vocab_size)
    ids = builder.op("Range", builder.i64_scalar(0), size, builder.i64_scalar(1), name="vocabulary")
    return _raced(builder, weights, ids, left.row, sampling, vocab_size=scaled.vocab_size)


def _candidate_token(builder: Builder, law: RowLaw, left: _Left, sampling: Sampling) -> ir.Value:
    """Return a token of the kept candidates, int64 [B]."""
    if law.candidates is None:
        raise SpeccBug("the law keeps every id")
    ids, weight = (builder.op("GatherND", x, left.row, name="row_kept", batch_dims=1) for x in law.candidates)
    total = builder.op("GatherND", law.total, left.row, name="row_total", batch_dims=1)
    p = builder.op("Div", weight, total, name="row_p")  # [B, K]
    weights = p
    if left.support is not None:
        support, q = left.support
        grown = p if left.weight is None else builder.op("Mul", p, left.weight, name="grown_p")
        rows = builder.op("Shape", left.row, name="num_rows", start=0, end=1)
        size = builder.op("Concat", rows, builder.i64(law.scaled.vocab_size), name="dense_shape", axis=0)
        nothing = builder.op("Expand", builder.f32(0.0), size, name="no_q")  # [B, V]
        dense = builder.op("ScatterElements", nothing, support, q, name="dense_q", axis=1)
        at = builder.op("GatherElements", dense, ids, name="q_at_candidates", axis=1)  # [B, K]
        rest = builder.op("Max", builder.op("Sub", grown, at, name="over_q"), builder.f32(0.0), name="left")
        weights = _or_all(builder, rest, p)
    return _raced(builder, weights, _row(builder, ids), left.row, sampling, vocab_size=law.scaled.vocab_size)


def _or_all(builder: Builder, left: ir.Value, p: ir.Value) -> ir.Value:
    """Return what is left of p, and p where nothing is: rounding alone leads there."""
    most = builder.op("ReduceMax", left, builder.i64(-1), name="most_left", keepdims=1)
    some = builder.op("Greater", most, builder.f32(0.0), name="some_left")
    return builder.op("Where", some, left, p, name="weights")


def _raced(
    builder: Builder, weights: ir.Value, ids: ir.Value, row: ir.Value, sampling: Sampling, *, vocab_size: int
) -> ir.Value:
    """Return the id of the largest weight / E, the lowest on ties, int64 [B].

    Args:
        builder: where the nodes go.
        weights: float32 [B, K].
        ids: int64 [K] or [B, 1, K].
        row: int64 [B, 1], the row of each sequence whose token it is.
        sampling: seeds and positions.
        vocab_size: V.
    """
    position = builder.op("GatherElements", sampling.position, row, name="own_position", axis=1)  # [B, 1]
    noise = builder.op(RESIDUAL_NOISE, sampling.seed, position, ids, name="residual_noise", domain=DOMAIN)  # [B, 1, K]
    race = builder.op("Div", _row(builder, weights), noise, name="race")
    last = builder.i64_scalar(vocab_size - 1)
    return builder.op("Squeeze", lowest_id_at_maximum(builder, race, ids, last), builder.i64(1), name="own_token")


def _row(builder: Builder, values: ir.Value) -> ir.Value:
    return builder.op("Unsqueeze", values, builder.i64(1), name="row")  # [B, 1, K]
