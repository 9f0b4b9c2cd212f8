"""Drafters that run on the host; the registry is a literal dict."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from specc.bundle.manifest import DraftSpec, NgramDraftSpec
from specc.errors import SpeccBug
from specc.runtime.drafters.drafter import Drafter
from specc.runtime.drafters.ngram import NgramDrafter

__all__ = ["DRAFTERS", "Drafter", "NgramDrafter", "drafter_from_spec"]


def _ngram_from_spec(spec: DraftSpec) -> Drafter:
    if not isinstance(spec, NgramDraftSpec):
        raise SpeccBug(f"the drafter of kind ngram was given a {type(spec).__name__}")
    return NgramDrafter(min_ngram=spec.min_ngram, max_ngram=spec.max_ngram)


def _no_drafter(_spec: DraftSpec) -> None:
    return None


DRAFTERS: Final[dict[str, Callable[[DraftSpec], Drafter | None]]] = {
    "ngram": _ngram_from_spec,
    "none": _no_drafter,
}


def drafter_from_spec(spec: DraftSpec) -> Drafter | None:
    """Return a new drafter for one request, None when the bundle has none."""
    return DRAFTERS[spec.kind](spec)
