"""Drafts drawn from a stated distribution q: what rejection sampling divides by is what was really drawn from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from specc.errors import SpeccBug
from specc.graph.builder import DOMAIN, Builder
from specc.graph.law import candidate_law
from specc.graph.noise import NOISE
from specc.graph.picks import (
    GREEDY_BELOW,
    Sampling,
    Scaled,
    greedy_picks,
    if_any,
    kept_candidates,
    lowest_id_at_maximum,
    row_kinds,
    scaled_logits,
)
from specc.plan.plan import GraphPlan


@dataclass(frozen=True)
class _Kept:
    """What a draft may be.

    Attributes:
        ids: int64 [K] or [B, 1, K].
        z: float32 [B, 1, K], (logit - maximum) / temperature.
        keep: bool [B, 1, K], whether q is above 0 there.
    """

    ids: ir.Value
    z: ir.Value
    keep: ir.Value


def drawn_drafts(
    builder: Builder, logits: ir.Value, sampling: Sampling, vocab_size: int, graph: GraphPlan
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Return a draft of each row and the distribution it was drawn from.

    q is the softmax of the `support` largest logits after temperature, top-k, top-p and min-p; a greedy row has all of
    it on its pick. Gumbel-max over the same weights draws from it exactly. Where the support is the vocabulary, q is
    what the target would make of these logits: only then does a draft that equals its target lose nothing without
    truncation.

    Args:
        builder: where the nodes go.
        logits: float32 [B, 1, V].
        sampling: parameters of the rows; position int64 [B, 1].
        vocab_size: V.
        graph: its support is Kq, at most `candidates` or V.

    Returns:
        drafts int64 [B, 1], q_ids int64 [B, Kq] with -1 where q is 0, q_probs float32 [B, Kq].

    Source: arXiv:2302.01318 section 3; drafters.md section 6.
    """
    if graph.support == vocab_size:
        kept = _whole(builder, logits, sampling, vocab_size, graph)
    else:
        kept = _largest(builder, logits, sampling, graph.support)
    noise = builder.op(NOISE, sampling.seed, sampling.position, kept.ids, name="noise", domain=DOMAIN)  # [B, 1, K]
    perturbed = builder.op("Add", kept.z, noise, name="perturbed")
    raced = builder.op("Where", kept.keep, perturbed, builder.f32(-np.inf), name="kept")
    drafts = lowest_id_at_maximum(builder, raced, kept.ids, builder.i64_scalar(vocab_size - 1))  # [B, 1]
    weight = builder.op("Where", kept.keep, builder.op("Exp", kept.z, name="ratio"), builder.f32(0.0), name="q_weight")
    total = builder.op("ReduceSum", weight, builder.i64(-1), name="q_total", keepdims=1)
    q = builder.op("Div", weight, total, name="q")
    stated = builder.op("Where", kept.keep, kept.ids, builder.i64_scalar(-1), name="stated_ids")
    return drafts, _flat(builder, stated, "q_ids"), _flat(builder, q, "q_probs")


def _largest(builder: Builder, logits: ir.Value, sampling: Sampling, count: int) -> _Kept:
    # Equal values come in the order of their indices: the operator's specification says so.
    largest, ids = builder.ops(
        "TopK", logits, builder.i64(count), outputs=("candidate_logits", "candidate_ids"), axis=-1
    )  # [B, 1, Kq]
    cold = builder.op("Less", sampling.temperature, builder.f32(GREEDY_BELOW), name="is_greedy")  # [B]
    temperature = builder.op("Where", cold, builder.f32(1.0), sampling.temperature, name="safe_temperature")
    top = builder.op("ReduceMax", largest, builder.i64(-1), name="largest", keepdims=1)  # [B, 1, 1]
    z = builder.op("Div", builder.op("Sub", largest, top, name="difference"), builder.cube(temperature), name="z")
    keep = kept_candidates(builder, z, sampling, count)  # [B, 1, Kq]
    zero, one = builder.i64_scalar(0), builder.i64_scalar(1)
    rank = builder.op("Range", zero, builder.i64_scalar(count), one, name="ranks")
    first = builder.op("Equal", rank, zero, name="is_first_rank")  # [Kq]
    hot = builder.cube(builder.op("Not", cold, name="is_drawn"))
    keep = builder.op("And", keep, builder.op("Or", hot, first, name="may_stay"), name="kept_or_pick")
    return _Kept(ids, z, keep)


def _whole(builder: Builder, logits: ir.Value, sampling: Sampling, vocab_size: int, graph: GraphPlan) -> _Kept:
    """Return all ids; a row keeps those that the target would keep of these logits: a prefix in descending order."""
    kinds = row_kinds(builder, sampling)
    scaled = scaled_logits(builder, logits, kinds, vocab_size)
    size = builder.i64_scalar(vocab_size)
    ids = builder.op("Range", builder.i64_scalar(0), size, builder.i64_scalar(1), name="vocabulary")  # [V]
    pick = builder.op("Unsqueeze", greedy_picks(builder, logits, vocab_size), builder.i64(2), name="pick_cube")
    lowest = builder.op("Expand", builder.f32(-np.inf), builder.op("Shape", pick, name="row_shape"), name="lowest")
    level, last = if_any(
        builder, kinds.partial, (lowest, pick), "truncated", lambda then: _last_kept(then, scaled, sampling, graph)
    )
    truncated = builder.cube(kinds.partial)
    level = builder.op("Where", truncated, level, lowest, name="lowest_kept")  # [B, 1, 1]
    above = builder.op("Greater", logits, level, name="above_last")
    tied = builder.op("Equal", logits, level, name="level_with_last")
    before = builder.op("LessOrEqual", ids, builder.op("Where", truncated, last, size, name="last_id"), name="in_order")
    keep = builder.op("Or", above, builder.op("And", tied, before, name="tied"), name="kept_ids")
    drawn = builder.op("Or", kinds.partial, kinds.whole, name="is_drawn")
    picked = builder.op("Equal", ids, pick, name="is_pick")
    # The largest logit is kept by every setting, and a greedy row keeps it alone.
    keep = builder.op("And", keep, builder.cube(drawn), name="kept_if_drawn")
    keep = builder.op("Or", keep, picked, name="kept_or_pick")
    return _Kept(ids, scaled.of(builder, logits), keep)


def _last_kept(builder: Builder, scaled: Scaled, sampling: Sampling, graph: GraphPlan) -> tuple[ir.Value, ir.Value]:
    law = candidate_law(builder, scaled, sampling, graph.candidates, with_entropy=False)
    if law.last is None:
        raise SpeccBug("a truncated law keeps a last id")
    return law.last


def _flat(builder: Builder, value: ir.Value, name: str) -> ir.Value:
    return builder.op("Squeeze", value, builder.i64(1), name=name)  # [B, Kq]
