"""A trained drafter head offered as a draft model: what it is, and whether it would fit this target."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from specc.doctor.evidence import ModelEvidence, PairEvidence
from specc.doctor.finding import Finding, Fix
from specc.doctor.head_kind import HeadKind, head_kind, stated_taps, tensor_named
from specc.doctor.rule import Rule
from specc.recipe.models import Eagle3Draft, ModelDraft

WANTED: Final = {"eagle3": "EAGLE-3", "dflash": "DFlash", "dspark": "DSpark"}
"""What a head of each kind of a recipe is called."""
FIX: Final = Fix("take the head that was trained for this target")


def _findings(pair: PairEvidence) -> Iterator[Finding]:
    draft = pair.draft
    if draft is None:
        return
    kind, stated = head_kind(draft), pair.recipe.draft
    place = pair.recipe.place("draft", "model")
    named = (f"kind: {stated.kind}", pair.recipe.place("draft", "kind"))
    wanted = WANTED.get(stated.kind)
    if kind is None:
        if wanted is not None and draft.config is not None and not draft.unread:
            message = "This is a model of its own: it has no projection of the target's hidden states."
            evidence = (named, ("no `fc.weight`", draft.config_place))
            fix = Fix(f"kind: model, or name a {wanted} head of this target".replace("a E", "an E"))
            yield Finding("SPC337", "error", place, evidence, message, fix)
        return
    if kind.name != wanted:
        message = f"This is {kind.named} head: it drafts from the target's hidden states and is no model of its own."
        fix = Fix("draft: {kind: ngram}, or a small model of the same tokenizer")
        able = next((name for name, of in WANTED.items() if of == kind.name), None)
        if wanted is not None:
            message = f"This is {kind.named} head, not one of {wanted}."
        if able is not None and not isinstance(stated, ModelDraft):
            fix = Fix(f"draft.kind: {able}")
        yield Finding("SPC337", "error", place, (named, (f"`{kind.told_by}`", draft.choice.model)), message, fix)
    if _tap_count(pair, draft) is None:
        yield from _no_taps(draft, kind, place)
    yield from _width(pair, draft, kind, place)


def _tap_count(pair: PairEvidence, draft: ModelEvidence) -> int | None:
    """Return how many layers the recipe, or the head's configuration, says that it reads."""
    stated = pair.recipe.draft
    if isinstance(stated, Eagle3Draft) and stated.taps is not None:
        return len(stated.taps)
    taps = stated_taps(draft.config) if draft.config is not None else None
    return None if taps is None else taps[0].count(",") + 1


def _no_taps(draft: ModelEvidence, kind: HeadKind, place: str) -> Iterator[Finding]:
    if not kind.taps or draft.config is None:
        return
    evidence = ((kind.name, f"`{kind.told_by}`"), ("no list of tap layers", str(draft.config.path)))
    message = (
        "Which layers the head listens to is not in its configuration. A guess leaves the text right and acceptance "
        "near nothing, without a word."
    )
    fix = Fix(
        'write the layers it was trained on into its config.json, as "target_layer_ids": [1, 15, 28], counting outputs '
        "of layers from 0"
    )
    yield Finding("SPC338", "error", place, evidence, message, fix)


def _width(pair: PairEvidence, draft: ModelEvidence, kind: HeadKind, place: str) -> Iterator[Finding]:
    """Compare the projection's input with k hidden states of the target."""
    fc, target = tensor_named(draft, "fc.weight"), pair.target.sizes
    if fc is None or target is None or len(fc.shape) != 2:
        return
    into, hidden = fc.shape[1], target.hidden_size
    count = _tap_count(pair, draft) if kind.taps else 2
    if kind.block and fc.shape[0] != hidden:
        evidence = (
            (f"fc.weight writes {fc.shape[0]} numbers", str(fc.file)),
            (f"hidden_size {hidden}", f"{pair.target.config_place} hidden_size"),
        )
        message = f"{kind.name} reads the target's embeddings and writes for its head: all are of one width."
        yield Finding(
            "SPC339", "error", place, evidence, message, Fix("take the head that was trained for this target")
        )
        return
    if into % hidden == 0 and count in (None, into // hidden):
        return
    expected = f"{'k' if count is None else count} x {hidden}"
    evidence = (
        (f"fc.weight reads {into} numbers", str(fc.file)),
        (f"{expected} are there", f"{pair.target.config_place} hidden_size"),
    )
    message = "The head was trained for a target of another width, or for another number of layers."
    yield Finding("SPC339", "error", place, evidence, message, FIX)


RULE: Final = Rule("drafter_head", ("draft config",), _findings)
