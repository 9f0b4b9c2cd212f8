"""Whether two tokenizers give every id the same token: the target judges drafted ids by its own vocabulary."""

from __future__ import annotations

from typing import Final

from specc.checkpoint.source import SourceCheckpoint
from specc.checkpoint.vocabulary import differing_ids
from specc.errors import SpeccError
from specc.recipe.schema import Recipe

SHOWN: Final = 6


def check_same_tokens(recipe: Recipe, target: SourceCheckpoint, draft: SourceCheckpoint) -> None:
    """Refuse a draft whose tokenizer is not the target's.

    Raises:
        SpeccError: SPC320 with the ids that differ; or one of the two has no tokenizer; or the draft's embedding does
            not cover the ids that the target emits.
    """
    ours, theirs = target.vocabulary, draft.vocabulary
    if (ours is None) != (theirs is None):
        bare = "target" if ours is None else "draft"
        raise _different(
            recipe, f"the {bare} has no tokenizer", f"name the tokenizer in {bare}.tokenizer, or take another draft"
        )
    differing = [] if ours is None or theirs is None else differing_ids(ours, theirs)
    if ours is not None and theirs is not None and differing:
        shown = differing[:SHOWN]
        here, there = ours.tokens(shown), theirs.tokens(shown)
        named = ", ".join(f"{i} is {_shown(here.get(i))}, in the draft {_shown(there.get(i))}" for i in shown)
        more = f", and {len(differing) - SHOWN} more" if len(differing) > SHOWN else ""
        raise _different(
            recipe, f"{len(differing)} ids differ: {named}{more}", "take a draft of the same tokenizer, or draft: ngram"
        )
    emitted = target.facts.emitted_vocab_size
    if ours is None and draft.facts.emitted_vocab_size != emitted:
        got = f"neither has a tokenizer, and the vocabularies have {emitted} and {draft.facts.emitted_vocab_size} ids"
        raise _different(recipe, got, "name the tokenizers in target.tokenizer and draft.tokenizer")
    if draft.facts.vocab_size < emitted:
        got = f"the draft has {draft.facts.vocab_size} rows of embedding, the target emits {emitted} ids"
        raise _different(recipe, got, "take a draft of the same vocabulary")


def _shown(token: str | None) -> str:
    return "nothing" if token is None else repr(token)


def _different(recipe: Recipe, got: str, fix: str) -> SpeccError:
    why = "an id that the draft proposes must stand for the same token in the target"
    return SpeccError("SPC320", recipe.place("draft", "model"), got, why, fix)
