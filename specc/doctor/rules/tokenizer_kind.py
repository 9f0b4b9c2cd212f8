"""Two kinds of tokenizers with equal sizes are not one vocabulary."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from specc.doctor.evidence import PairEvidence
from specc.doctor.finding import Finding, Fix
from specc.doctor.rule import Rule


def _findings(pair: PairEvidence) -> Iterator[Finding]:
    draft = pair.draft
    if draft is None or pair.target.vocabulary is None or draft.vocabulary is None:
        return
    kinds = pair.target.vocabulary.kind, draft.vocabulary.kind
    if kinds[0] == kinds[1]:
        return
    evidence = (
        (kinds[0], f"tokenizer of {pair.target.choice.model}"),
        (kinds[1], f"tokenizer of {draft.choice.model}"),
    )
    message = "They split text into other tokens, whatever their sizes; specc does not translate between vocabularies."
    fix = Fix("take a draft of the same tokenizer, or draft: {kind: ngram}, which needs none")
    yield Finding("SPC331", "error", pair.recipe.place("draft", "model"), evidence, message, fix)


RULE: Final = Rule("tokenizer_kind", ("tokenizers",), _findings)
