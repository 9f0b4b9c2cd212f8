"""The distribution q that each draft was drawn from, from the inputs q_ids and q_probs (docs/engine-abi.md rule 9)."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from specc.graph.builder import Builder


@dataclass(frozen=True)
class DraftLaw:
    """q at a list of ids for each row; all other ids have q = 0.

    Attributes:
        ids: int64 [B, R, Kq], inside the vocabulary. Padding repeats the draft, with the draft's q.
        probs: float32 [B, R, Kq], q of `ids`.
        counted: float32 [B, R, Kq], 1 for the entries that are no padding, 0 for the others.
        of_draft: float32 [B, R], q of the draft itself, above 0.
    """

    ids: ir.Value
    probs: ir.Value
    counted: ir.Value
    of_draft: ir.Value


def safe_drafts(builder: Builder, drafts: ir.Value, vocab_size: int) -> ir.Value:
    """Return drafts, int64 [B, R], with ids beyond the vocabulary moved to its last one, for look-ups."""
    return builder.op("Min", drafts, builder.i64_scalar(vocab_size - 1), name="safe_drafts")


def draft_law(builder: Builder, q_ids: ir.Value, q_probs: ir.Value, drafts: ir.Value, vocab_size: int) -> DraftLaw:
    """Return q; one-hot for a draft that its q does not list.

    Args:
        builder: where the nodes go.
        q_ids: int64 [B, R, Kq].
        q_probs: float32 [B, R, Kq].
        drafts: int64 [B, R], the draft judged at each row.
        vocab_size: V.
    """
    nothing, one = builder.f32(0.0), builder.f32(1.0)
    cube = builder.i64(2)
    draft = builder.op("Unsqueeze", safe_drafts(builder, drafts, vocab_size), cube, name="draft_cube")  # [B, R, 1]
    inside = builder.op("Less", drafts, builder.i64_scalar(vocab_size), name="draft_is_inside")
    named = builder.op("GreaterOrEqual", q_ids, builder.i64_scalar(0), name="is_named")
    known = builder.op("Less", q_ids, builder.i64_scalar(vocab_size), name="is_known")
    positive = builder.op("Greater", q_probs, nothing, name="is_positive")
    valid = builder.op("And", builder.op("And", named, known, name="is_id"), positive, name="is_valid")
    mine = builder.op("And", valid, builder.op("Equal", q_ids, draft, name="is_draft_id"), name="is_own")
    stated = builder.op("Where", mine, q_probs, nothing, name="own_q")
    found = builder.op("ReduceSum", stated, builder.i64(-1), name="q_of_draft", keepdims=0)  # [B, R]
    listed = builder.op("And", builder.op("Greater", found, nothing, name="is_found"), inside, name="is_listed")
    of_draft = builder.op("Where", listed, found, one, name="q_of_draft_or_one")
    # A draft beyond the vocabulary takes nothing from any id.
    taken = builder.op("Where", inside, of_draft, nothing, name="q_taken_by_draft")
    usable = builder.op("And", valid, builder.op("Unsqueeze", listed, cube, name="listed_cube"), name="is_usable")
    width = builder.op("Squeeze", builder.op("Shape", q_ids, name="q_width", start=2, end=3), name="q_entries")
    entry = builder.op("Range", builder.i64_scalar(0), width, builder.i64_scalar(1), name="q_entry")  # [Kq]
    first = builder.op("Equal", entry, builder.i64_scalar(0), name="is_first_entry")
    unlisted = builder.op("Unsqueeze", builder.op("Not", listed, name="unlisted"), cube, name="unlisted_cube")
    counts = builder.op("Or", usable, builder.op("And", unlisted, first, name="stands_for_draft"), name="is_counted")
    return DraftLaw(
        ids=builder.op("Where", usable, q_ids, draft, name="q_support"),
        probs=builder.op(
            "Where", usable, q_probs, builder.op("Unsqueeze", taken, cube, name="taken_cube"), name="q_at_support"
        ),
        counted=builder.op("Cast", counts, name="counted", to=ir.DataType.FLOAT),
        of_draft=of_draft,
    )
