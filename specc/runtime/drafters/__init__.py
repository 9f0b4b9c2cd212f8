"""Drafters; the registry of those that serve one request each is a literal dict."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from specc.bundle.drafts import DraftSpec, NgramDraftSpec, SuffixDraftSpec
from specc.errors import SpeccBug
from specc.runtime.drafters.drafter import Ask, BatchDrafter, Drafter, Proposal
from specc.runtime.drafters.engine import BurstEngine, EngineDrafter
from specc.runtime.drafters.ngram import NgramDrafter
from specc.runtime.drafters.suffix import SIZES, SuffixDrafter, SuffixSettings
from specc.runtime.drafters.text_index import SessionText

__all__ = [
    "DRAFTERS",
    "Ask",
    "BatchDrafter",
    "BurstEngine",
    "Drafter",
    "EngineDrafter",
    "NewDrafter",
    "NgramDrafter",
    "Proposal",
    "SuffixDrafter",
    "new_drafter_from_spec",
]

NewDrafter: TypeAlias = Callable[[], Drafter | None]


def _ngram_drafters(spec: DraftSpec) -> NewDrafter:
    if not isinstance(spec, NgramDraftSpec):
        raise SpeccBug(f"the drafter of kind ngram was given a {type(spec).__name__}")
    sizes = range(spec.min_ngram, spec.max_ngram + 1)
    session = SessionText(sizes, spec.session_tokens) if spec.scope == "session" else None
    return lambda: NgramDrafter(spec.min_ngram, spec.max_ngram, spec.match, session)


def _suffix_drafters(spec: DraftSpec) -> NewDrafter:
    if not isinstance(spec, SuffixDraftSpec):
        raise SpeccBug(f"the drafter of kind suffix was given a {type(spec).__name__}")
    settings = SuffixSettings(spec.max_depth, spec.factor, spec.offset, spec.min_token_prob)
    session = SessionText(SIZES, spec.session_tokens) if spec.scope == "session" else None
    return lambda: SuffixDrafter(settings, session)


def _no_own_drafters(_spec: DraftSpec) -> NewDrafter:
    return lambda: None


DRAFTERS: Final[dict[str, Callable[[DraftSpec], NewDrafter]]] = {
    "ngram": _ngram_drafters,
    "suffix": _suffix_drafters,
    "none": _no_own_drafters,
    # Their engine drafts for all rows at once: `session.py` makes its one EngineDrafter.
    "model": _no_own_drafters,
    "self": _no_own_drafters,
}


def new_drafter_from_spec(spec: DraftSpec) -> NewDrafter:
    """Return what makes the drafter of each request of one session; what requests share is made here, once.

    It makes None for kinds that do not serve requests one by one.
    """
    return DRAFTERS[spec.kind](spec)
