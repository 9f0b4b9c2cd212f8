"""Each id must stand for the same token in both models; padding rows of the embedding may differ in number."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from specc.checkpoint.source import SourceCheckpoint
from specc.checkpoint.vocabulary import Vocabulary, differing_ids
from specc.doctor.evidence import ModelEvidence, PairEvidence
from specc.doctor.finding import Finding, Fix, finding_from_error
from specc.doctor.rule import Rule
from specc.errors import SpeccError
from specc.plan.same_tokens import check_same_tokens

SHOWN: Final = 4
FIX: Final = Fix("take a draft of the same tokenizer, or draft: {kind: ngram}, which needs none")


def _findings(pair: PairEvidence) -> Iterator[Finding]:
    draft = pair.draft
    if draft is None:
        return
    place = pair.recipe.place("draft", "model")
    ours, theirs = pair.target.vocabulary, draft.vocabulary
    if ours is None or theirs is None:
        yield from _without_tokenizers(pair, pair.target.source, draft.source)
        return
    differing = differing_ids(ours, theirs)
    if differing:
        evidence = (
            (_listed(ours, differing), f"tokenizer of {pair.target.choice.model}"),
            (_listed(theirs, differing), f"tokenizer of {draft.choice.model}"),
        )
        yield Finding("SPC320", "error", place, evidence, _verdict(ours, theirs, differing), FIX)
        return
    yield from _rows(pair, draft, ours.token_count)


def _without_tokenizers(
    pair: PairEvidence, target: SourceCheckpoint | None, draft: SourceCheckpoint | None
) -> Iterator[Finding]:
    if target is None or draft is None:
        return
    try:
        check_same_tokens(pair.recipe, target, draft)
    except SpeccError as error:
        yield finding_from_error(error)


def _verdict(ours: Vocabulary, theirs: Vocabulary, differing: list[int]) -> str:
    moved = sum(token in ours.ids for token in theirs.tokens(set(differing)).values())
    specials = sum(i in ours.added or i in theirs.added for i in differing)
    return (
        f"{len(differing)} ids differ: {moved} tokens stand under another id, {specials} of the ids are special or "
        "added tokens. An id that the draft proposes must stand for the same token in the target."
    )


def _rows(pair: PairEvidence, draft: ModelEvidence, known: int) -> Iterator[Finding]:
    """Compare the rows of the embeddings behind one tokenizer."""
    target = pair.target
    if target.sizes is None or draft.sizes is None or target.sizes.vocab_size == draft.sizes.vocab_size:
        return
    rows = (
        (f"{target.sizes.vocab_size} rows", f"{target.config_place} vocab_size"),
        (f"{draft.sizes.vocab_size} rows", f"{draft.config_place} vocab_size"),
    )
    place = pair.recipe.place("draft", "model")
    if draft.sizes.vocab_size < min(known, target.sizes.vocab_size):
        message = f"The tokenizer has {known} tokens, and the draft has no embedding for the last of them."
        yield Finding("SPC320", "error", place, rows, message, Fix("take a draft of the same vocabulary"))
        return
    message = f"Both are cut to the {known} tokens of the tokenizer; padding is never drafted and never picked."
    yield Finding("SPC330", "note", place, rows, message)


def _listed(vocabulary: Vocabulary, ids: list[int]) -> str:
    tokens = vocabulary.tokens(ids[:SHOWN])
    shown = ", ".join(f"{i} is {tokens[i]!r}" if i in tokens else f"no {i}" for i in ids[:SHOWN])
    return shown + (f", {len(ids) - SHOWN} more" if len(ids) > SHOWN else "")


RULE: Final = Rule("vocabulary", ("draft config",), _findings)
