"""Which drafts pass, and how many are accepted: the rules of `specc/speculation/rules.py` as nodes.

A draft passes iff u * denominator < numerator, its chance as a fraction, so that nothing is divided.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import onnx_ir as ir

from specc.errors import SpeccBug
from specc.graph.builder import DOMAIN, Builder
from specc.graph.draft_law import DraftLaw, safe_drafts
from specc.graph.law import RowLaw
from specc.graph.noise import ACCEPT_NOISE
from specc.graph.picks import Sampling
from specc.speculation.modes import TypicalSpec

# A product of ratios p/q beyond it stands for a chain that q draws with a probability below the inverse.
_LARGEST_RATIO: Final = 1e30


@dataclass(frozen=True)
class Chain:
    """The drafts of a call, and where they stand.

    Attributes:
        column: int64 [R], 0 to R-1.
        drafts: int64 [B, R], the draft judged at each row; the last column is padding.
        drafted: int64 [B], drafts of the row; 0 in idle rows.
        is_draft: bool [B, R], whether the row judges a draft.
        following: int64 [R], the next column, the last one for itself.
    """

    column: ir.Value
    drafts: ir.Value
    drafted: ir.Value
    is_draft: ir.Value
    following: ir.Value


@dataclass(frozen=True)
class Verdict:
    """The result of a rule.

    Attributes:
        accepted: int64 [B], drafts accepted.
        weight: float32 [B, R], pi for each number of accepted drafts; None where it is 1.
    """

    accepted: ir.Value
    weight: ir.Value | None


def leading_run(builder: Builder, passes: ir.Value, chain: Chain) -> ir.Value:
    """Return the number of drafts before the first that does not pass, int64 [B]; passes is bool [B, R]."""
    zero, one = builder.i64_scalar(0), builder.i64_scalar(1)
    matches = builder.op("And", passes, chain.is_draft, name="matches")
    misses = builder.op("Cast", builder.op("Not", matches, name="misses"), name="miss", to=ir.DataType.INT64)
    unbroken = builder.op("Equal", builder.op("CumSum", misses, one, name="missed"), zero, name="unbroken")
    counted = builder.op("Cast", unbroken, name="accepted", to=ir.DataType.INT64)
    return builder.op("ReduceSum", counted, builder.i64(1), name="num_accepted", keepdims=0)


def rejection_verdict(builder: Builder, law: RowLaw, q: DraftLaw, chain: Chain, sampling: Sampling) -> Verdict:
    """Return how many drafts pass u * q(draft) < p(draft), up to the first that does not."""
    position, place = sampling.position, builder.i64(0)
    noise = builder.op(ACCEPT_NOISE, sampling.seed, position, place, name="accept_noise", domain=DOMAIN)  # [B, R, 1]
    u = builder.op("Squeeze", noise, builder.i64(2), name="accept_uniform")
    share = builder.op("Mul", u, q.of_draft, name="share_of_q")
    passes = builder.op("Less", share, _draft_probability(builder, law, chain), name="passes")
    return Verdict(leading_run(builder, passes, chain), None)


def typical_verdict(builder: Builder, law: RowLaw, chain: Chain, typical: TypicalSpec) -> Verdict:
    """Return how many drafts have p(draft) > min(epsilon, delta exp(-entropy)), up to the first that has not."""
    if law.entropy is None:
        raise SpeccBug("typical acceptance asks for the entropy of the rows")
    likeness = builder.op("Exp", builder.op("Neg", law.entropy, name="negative_entropy"), name="likeness")
    relative = builder.op("Mul", likeness, builder.f32(typical.delta), name="relative_threshold")
    threshold = builder.op("Min", relative, builder.f32(typical.epsilon), name="threshold")
    passes = builder.op("Greater", _draft_probability(builder, law, chain), threshold, name="passes")
    return Verdict(leading_run(builder, passes, chain), None)


def block_verdict(
    builder: Builder, law: RowLaw, q: DraftLaw, chain: Chain, sampling: Sampling, *, max_rows: int
) -> Verdict:
    """Return the last draft that passes, and pi.

    Args:
        builder: where the nodes go.
        law: p of all rows.
        q: of the drafts.
        chain: the drafts.
        sampling: seeds and positions.
        max_rows: the largest R.
    """
    one = builder.f32(1.0)
    ratio = builder.op("Div", _draft_probability(builder, law, chain), q.of_draft, name="ratio_of_draft")
    ratio = builder.op("Min", ratio, builder.f32(_LARGEST_RATIO), name="bounded_ratio")
    ratio = builder.op("Where", chain.is_draft, ratio, one, name="ratio_or_one")
    pi = _capped_products(builder, ratio, chain.column, max_rows)  # [B, R], column c: after draft c+1
    support = law.probability(builder, q.ids)  # [B, R, Kq]
    next_q = [builder.op("Gather", value, chain.following, name="of_next_row", axis=1) for value in (support, q.probs)]
    counted = builder.op("Gather", q.counted, chain.following, name="next_counted", axis=1)
    share = builder.op("Mul", builder.op("Unsqueeze", pi, builder.i64(2), name="pi_cube"), next_q[0], name="pi_p")
    over = builder.op("Max", builder.op("Sub", share, next_q[1], name="over_q"), builder.f32(0.0), name="left_at")
    last = builder.i64(-1)
    inside = builder.op("Mul", over, counted, name="left_inside")
    inside = builder.op("ReduceSum", inside, last, name="left_in_support", keepdims=0)
    mass = builder.op("Mul", next_q[0], counted, name="p_inside")
    mass = builder.op("ReduceSum", mass, last, name="p_in_support", keepdims=0)
    beyond = builder.op("Max", builder.op("Sub", one, mass, name="p_beyond"), builder.f32(0.0), name="p_outside")
    left = builder.op("Add", builder.op("Mul", pi, beyond, name="left_outside"), inside, name="left")  # [B, R]
    drafted = builder.op("Unsqueeze", chain.drafted, builder.i64(1), name="drafted_column")
    next_column = builder.op("Add", chain.column, builder.i64_scalar(1), name="number_of_draft")
    is_last = builder.op("Equal", next_column, drafted, name="is_last_draft")
    rest = builder.op("Add", left, builder.op("Sub", one, pi, name="missing"), name="left_and_missing")
    numerator = builder.op("Where", is_last, pi, left, name="numerator")
    denominator = builder.op("Where", is_last, one, rest, name="denominator")
    first = builder.op("Gather", sampling.position, builder.i64(0), name="round_position", axis=1)  # [B, 1]
    noise = builder.op(ACCEPT_NOISE, sampling.seed, first, chain.column, name="accept_noise", domain=DOMAIN)
    u = builder.op("Squeeze", noise, builder.i64(1), name="accept_uniform")  # [B, R]
    passes = builder.op("Less", builder.op("Mul", u, denominator, name="share"), numerator, name="passes")
    passes = builder.op("And", passes, chain.is_draft, name="draft_passes")
    reached = builder.op("Where", passes, next_column, builder.i64_scalar(0), name="reached")
    accepted = builder.op("ReduceMax", reached, builder.i64(1), name="last_passing", keepdims=0)
    return Verdict(accepted, _after_none(builder, pi, chain.column))


def _capped_products(builder: Builder, ratio: ir.Value, column: ir.Value, max_rows: int) -> ir.Value:
    """Return pi_c = min(1, pi_{c-1} ratio_c), float32 [B, R], in log2(max_rows) steps.

    A run of draws maps pi to min(cap, slope * pi); two runs compose to such a map again.
    """
    one = builder.f32(1.0)
    slope = ratio
    cap = builder.op("Min", ratio, one, name="cap")
    step = 1
    while step < max_rows:
        size = builder.i64_scalar(step)
        has = builder.op("GreaterOrEqual", column, size, name="has_earlier")
        back = builder.op("Sub", column, size, name="earlier")
        source = builder.op("Max", back, builder.i64_scalar(0), name="source")
        earlier_cap = builder.op("Gather", cap, source, name="earlier_cap", axis=1)
        earlier_slope = builder.op("Gather", slope, source, name="earlier_slope", axis=1)
        earlier_cap = builder.op("Where", has, earlier_cap, one, name="earlier_cap_or_one")
        earlier_slope = builder.op("Where", has, earlier_slope, one, name="earlier_slope_or_one")
        cap = builder.op("Min", cap, builder.op("Mul", slope, earlier_cap, name="grown"), name="cap")
        slope = builder.op("Mul", slope, earlier_slope, name="slope")
        slope = builder.op("Min", slope, builder.f32(_LARGEST_RATIO), name="bounded_slope")
        step *= 2
    return cap


def _after_none(builder: Builder, pi: ir.Value, column: ir.Value) -> ir.Value:
    """Return pi by the number of accepted drafts: 1 for none, then the columns of pi."""
    zero = builder.i64_scalar(0)
    before = builder.op("Max", builder.op("Sub", column, builder.i64_scalar(1), name="previous"), zero, name="before")
    moved = builder.op("Gather", pi, before, name="pi_before", axis=1)
    is_first = builder.op("Equal", column, zero, name="is_first_column")
    return builder.op("Where", is_first, builder.f32(1.0), moved, name="pi_by_accepted")


def _draft_probability(builder: Builder, law: RowLaw, chain: Chain) -> ir.Value:
    """Return p of the drafts, float32 [B, R]; 0 for ids beyond the vocabulary."""
    size = law.scaled.vocab_size
    ids = builder.op("Unsqueeze", safe_drafts(builder, chain.drafts, size), builder.i64(2), name="draft_index")
    found = builder.op("Squeeze", law.probability(builder, ids), builder.i64(2), name="p_found")
    inside = builder.op("Less", chain.drafts, builder.i64_scalar(size), name="is_inside")
    return builder.op("Where", inside, found, builder.f32(0.0), name="p_of_draft")
