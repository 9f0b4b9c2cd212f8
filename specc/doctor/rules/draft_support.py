"""Drafts that are drawn from fewer ids than the target keeps: what lies beyond them is never drafted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from specc.doctor.evidence import PairEvidence
from specc.doctor.finding import Finding, Fix
from specc.doctor.rule import Rule
from specc.recipe.models import ModelDraft, SelfDraft

WEIGHING: Final = ("rejection", "block")
"""Modes of acceptance that ask what a draft was drawn from."""

HOT: Final = 0.9
"""Temperature from which on it shows: 64 ids hold 87 % of SmolLM2's probability at 1.0, 98 % at 0.7
(benchmarks/draft_support.py)."""


def _findings(pair: PairEvidence) -> Iterator[Finding]:
    plan, draft = pair.plan, pair.recipe.draft
    if plan is None or not isinstance(draft, ModelDraft | SelfDraft) or plan.graph.acceptance not in WEIGHING:
        return
    sampling, support = plan.sampling, plan.graph.support
    truncated = sampling.top_k > 0 or sampling.top_p < 1 or sampling.min_p > 0
    if truncated or sampling.temperature < HOT or support >= plan.target.facts.emitted_vocab_size:
        return
    place = pair.recipe.place("sampling") if sampling.source == "recipe" else pair.recipe.place("target", "model")
    evidence = (
        (f"temperature {sampling.temperature}, without truncation", place),
        (f"drafts are drawn from {support} ids", pair.recipe.place("draft")),
    )
    message = "What the target samples beyond these ids is never drafted: even a perfect draft is refused there."
    whole = "draft.support: all, or " if plan.backend.name == "onnxruntime" else ""
    yield Finding("SPC350", "warning", place, evidence, message, Fix(f"{whole}a truncation, as sampling.top_p: 0.95"))


RULE: Final = Rule("draft_support", (), _findings)
