"""Drafts drawn from a stated distribution q: what rejection sampling divides by is what was really drawn from."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from specc.graph.builder import DOMAIN, Builder
from specc.graph.noise import NOISE
from specc.graph.picks import GREEDY_BELOW, Sampling, kept_candidates, lowest_id_at_maximum


def drawn_drafts(
    builder: Builder, logits: ir.Value, sampling: Sampling, vocab_size: int, candidates: int
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Return a draft of each row and the distribution it was drawn from.

    q is the softmax of the `candidates` largest logits after temperature, top-k, top-p and min-p; a greedy row has all
    of it on its pick. Gumbel-max over the same weights draws from it exactly.

    Args:
        builder: where the nodes go.
        logits: float32 [B, 1, V].
        sampling: parameters of the rows; position int64 [B, 1].
        vocab_size: V.
        candidates: Kq, at most V.

    Returns:
        drafts int64 [B, 1], q_ids int64 [B, Kq] with -1 where q is 0, q_probs float32 [B, Kq].

    Source: arXiv:2302.01318 section 3; drafters.md section 6.
    """
    # Equal values come in the order of their indices: the operator's specification says so.
    largest, ids = builder.ops(
        "TopK", logits, builder.i64(candidates), outputs=("candidate_logits", "candidate_ids"), axis=-1
    )  # [B, 1, Kq]
    cold = builder.op("Less", sampling.temperature, builder.f32(GREEDY_BELOW), name="is_greedy")  # [B]
    temperature = builder.op("Where", cold, builder.f32(1.0), sampling.temperature, name="safe_temperature")
    top = builder.op("ReduceMax", largest, builder.i64(-1), name="largest", keepdims=1)  # [B, 1, 1]
    z = builder.op("Div", builder.op("Sub", largest, top, name="difference"), _cube(builder, temperature), name="z")
    keep = kept_candidates(builder, z, sampling, candidates)  # [B, 1, Kq]
    zero, one = builder.i64_scalar(0), builder.i64_scalar(1)
    rank = builder.op("Range", zero, builder.i64_scalar(candidates), one, name="ranks")
    first = builder.op("Equal", rank, zero, name="is_first_rank")  # [Kq]
    hot = _cube(builder, builder.op("Not", cold, name="is_drawn"))
    keep = builder.op("And", keep, builder.op("Or", hot, first, name="may_stay"), name="kept_or_pick")
    noise = builder.op(NOISE, sampling.seed, sampling.position, ids, name="noise", domain=DOMAIN)  # [B, 1, Kq]
    perturbed = builder.op("Add", z, noise, name="perturbed")
    kept = builder.op("Where", keep, perturbed, builder.f32(-np.inf), name="kept")
    drafts = lowest_id_at_maximum(builder, kept, ids, builder.i64_scalar(vocab_size - 1))  # [B, 1]
    weight = builder.op("Where", keep, builder.op("Exp", z, name="ratio"), builder.f32(0.0), name="q_weight")
    total = builder.op("ReduceSum", weight, builder.i64(-1), name="q_total", keepdims=1)
    q = builder.op("Div", weight, total, name="q")
    stated = builder.op("Where", keep, ids, builder.i64_scalar(-1), name="stated_ids")
    return drafts, _flat(builder, stated, "q_ids"), _flat(builder, q, "q_probs")


def _cube(builder: Builder, row: ir.Value) -> ir.Value:
    return builder.op("Unsqueeze", row, builder.i64(1, 2), name="cube")  # [B, 1, 1]


def _flat(builder: Builder, value: ir.Value, name: str) -> ir.Value:
    return builder.op("Squeeze", value, builder.i64(1), name=name)  # [B, Kq]
