"""The target's chat template is what both models read: a draft trained on another form agrees less often."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Final

from specc.doctor.evidence import ModelEvidence, PairEvidence
from specc.doctor.finding import Finding, Fix
from specc.doctor.rule import Rule


def _findings(pair: PairEvidence) -> Iterator[Finding]:
    draft = pair.draft
    if draft is None or pair.target.vocabulary is None or draft.vocabulary is None:
        return
    digests = _digest(pair.target), _digest(draft)
    if digests[0] == digests[1] or "none" in digests:
        return
    evidence = (
        (f"sha256 {digests[0]}", f"chat template of {pair.target.choice.model}"),
        (f"sha256 {digests[1]}", f"chat template of {draft.choice.model}"),
    )
    message = (
        "Chats are written in the target's form, and the draft reads it. The text stays right; where the draft was "
        "trained on another form, fewer of its tokens are accepted."
    )
    fix = Fix("compare the two templates, then measure with `specc bench --chat`")
    yield Finding("SPC332", "warning", pair.recipe.place("draft", "model"), evidence, message, fix)


def _digest(model: ModelEvidence) -> str:
    text = model.chat_template
    return "none" if text is None else hashlib.sha256(text.strip().encode()).hexdigest()[:12]


RULE: Final = Rule("chat_template", ("tokenizers",), _findings)
