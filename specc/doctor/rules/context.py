"""A draft of a shorter context than the bundle's texts drafts only up to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from specc.doctor.evidence import PairEvidence
from specc.doctor.finding import Finding, Fix
from specc.doctor.rule import Rule


def _findings(pair: PairEvidence) -> Iterator[Finding]:
    target, draft, limits = pair.target.sizes, pair.draft, pair.recipe.limits
    if target is None or draft is None or draft.sizes is None:
        return
    length = min(limits.max_input + limits.max_output, target.max_position_embeddings)
    context = draft.sizes.max_position_embeddings
    if context >= length:
        return
    evidence = (
        (f"{length} tokens", "limits.max_input and max_output, within the target's context"),
        (f"{context} tokens", f"{draft.config_place} max_position_embeddings"),
    )
    message = f"Beyond {context} tokens a request decodes autoregressively: the draft was never trained there."
    fix = Fix(f"take a draft with a longer context, or limits of {context} tokens together")
    yield Finding("SPC333", "warning", pair.recipe.place("draft", "model"), evidence, message, fix)


RULE: Final = Rule("context", ("target config", "draft config"), _findings)
