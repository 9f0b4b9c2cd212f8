"""The distribution that a row samples from, asked for single ids: no tensor of the vocabulary's width is kept for it.

What a row keeps is a prefix of its logits in descending order, ties by id. So its last kept logit and id say of any id
whether it is kept, and the sum of the kept weights makes it a probability.
"""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from specc.graph.builder import Builder
from specc.graph.picks import Sampling, Scaled, kept_candidates

# exp of it is 0 in float32: a weight of 0 adds nothing to an entropy, also where its logit is minus infinity.
_NO_WEIGHT = -200.0


@dataclass(frozen=True)
class RowLaw:
    """The distributions p of all logit rows.

    Attributes:
        scaled: the logits.
        total: float32 [B, R, 1], sum of the kept weights exp((logit - maximum) / temperature).
        last: logit float32 [B, R, 1] and id int64 [B, R, 1] of the last kept candidate; None where all ids are kept.
        candidates: ids int64 [B, R, K] and weights float32 [B, R, K], 0 where not kept; None where all ids are kept.
        entropy: float32 [B, R], in nats; None where no rule asks for it.
    """

    scaled: Scaled
    total: ir.Value
    last: tuple[ir.Value, ir.Value] | None
    candidates: tuple[ir.Value, ir.Value] | None
    entropy: ir.Value | None

    def probability(self, builder: Builder, ids: ir.Value) -> ir.Value:
        """Return p of ids, int64 [B, R, N] inside the vocabulary, float32 [B, R, N]."""
        logits = builder.op("GatherElements", self.scaled.logits, ids, name="logits_of_ids", axis=2)
        weight = builder.op("Exp", self.scaled.of(builder, logits), name="weight_of_ids")
        p = builder.op("Div", weight, self.total, name="p_of_ids")
        if self.last is None:
            return p
        above = builder.op("Greater", logits, self.last[0], name="above_last")
        level = builder.op("Equal", logits, self.last[0], name="level_with_last")
        before = builder.op("LessOrEqual", ids, self.last[1], name="not_after_last")
        kept = builder.op("Or", above, builder.op("And", level, before, name="tied"), name="ids_kept")
        return builder.op("Where", kept, p, builder.f32(0.0), name="p_of_kept_ids")


def vocabulary_law(builder: Builder, scaled: Scaled, *, with_entropy: bool) -> RowLaw:
    """Return the law of rows that keep every id."""
    z = scaled.of(builder, scaled.logits)
    weight = builder.op("Exp", z, name="weight")  # [B, R, V]
    total = builder.op("ReduceSum", weight, builder.i64(-1), name="total", keepdims=1)
    return RowLaw(scaled, total, None, None, _entropy(builder, z, weight, total) if with_entropy else None)


def candidate_law(
    builder: Builder, scaled: Scaled, sampling: Sampling, candidates: int, *, with_entropy: bool
) -> RowLaw:
    """Return the law of rows that truncate: top-k, then top-p, then min-p on the `candidates` largest logits."""
    # Equal values come in the order of their indices: the operator's specification says so.
    logits, ids = builder.ops(
        "TopK", scaled.logits, builder.i64(candidates), outputs=("candidate_logits", "candidate_ids"), axis=-1
    )  # [B, R, K]
    z = scaled.of(builder, logits)
    keep = kept_candidates(builder, z, sampling, candidates)
    weight = builder.op("Where", keep, builder.op("Exp", z, name="ratio"), builder.f32(0.0), name="kept_weight")
    total = builder.op("ReduceSum", weight, builder.i64(-1), name="kept_total", keepdims=1)
    number = builder.op("Cast", keep, name="kept_number", to=ir.DataType.INT64)
    count = builder.op("ReduceSum", number, builder.i64(-1), name="num_kept", keepdims=1)  # [B, R, 1]
    rank = builder.op("Sub", count, builder.i64_scalar(1), name="last_rank")
    last = (
        builder.op("GatherElements", logits, rank, name="last_logit", axis=2),
        builder.op("GatherElements", ids, rank, name="last_id", axis=2),
    )
    entropy = _entropy(builder, z, weight, total) if with_entropy else None
    return RowLaw(scaled, total, last, (ids, weight), entropy)


def _entropy(builder: Builder, z: ir.Value, weight: ir.Value, total: ir.Value) -> ir.Value:
    """Return log(sum w) - sum(w z) / sum w, float32 [B, R]."""
    last = builder.i64(-1)
    finite = builder.op("Max", z, builder.f32(_NO_WEIGHT), name="finite_z")
    energy = builder.op("ReduceSum", builder.op("Mul", weight, finite, name="wz"), last, name="energy", keepdims=1)
    mean = builder.op("Div", energy, total, name="mean_z")
    entropy = builder.op("Sub", builder.op("Log", total, name="log_total"), mean, name="entropy")
    return builder.op("Squeeze", entropy, last, name="entropy_row")
