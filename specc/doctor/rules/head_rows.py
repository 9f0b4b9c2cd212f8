"""A head that drafts the target's own ids: its tables must have the target's rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from specc.doctor.evidence import PairEvidence
from specc.doctor.finding import Finding, Fix
from specc.doctor.head_kind import head_kind, tensor_named
from specc.doctor.rule import Rule

TABLES: Final = ("embed_tokens.weight", "markov_head.markov_w1.weight", "markov_head.markov_w2.weight")
"""Rows of these are the target's ids in every published head; DSpark's Markov head adds to the target's logits."""


def _findings(pair: PairEvidence) -> Iterator[Finding]:
    draft, target = pair.draft, pair.target
    kind = None if draft is None else head_kind(draft)
    if draft is None or kind is None or not kind.taps or target.sizes is None:
        return
    rows = target.sizes.vocab_size
    least = rows if target.vocabulary is None else min(rows, target.vocabulary.token_count)
    mapped = tensor_named(draft, "d2t") is not None
    found = [
        (f"{header.shape[0]} rows of {name}", header.shape[0], str(header.file))
        for name in (*TABLES, *(() if mapped else ("lm_head.weight",)))
        if (header := tensor_named(draft, name)) is not None and header.shape
    ]
    if not found and not mapped and draft.sizes is not None:  # a block drafter has the target's tables
        found = [(f"{draft.sizes.vocab_size} ids", draft.sizes.vocab_size, f"{draft.config_place} vocab_size")]
    wrong = [(text, where) for text, count, where in found if not least <= count <= rows]
    if not wrong:
        return
    evidence = (wrong[0], (f"{rows} rows of embedding", f"{target.config_place} vocab_size"))
    message = f"Ids of {kind.named} head are the target's own unless d2t maps them: it was trained for other ones."
    fix = Fix("take the head that was trained for this target")
    yield Finding("SPC340", "error", pair.recipe.place("draft", "model"), evidence, message, fix)


RULE: Final = Rule("head_rows", ("target config", "draft config"), _findings)
