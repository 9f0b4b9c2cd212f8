"""Block drafters fill the block with a mask token, which must be an id that no text uses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from specc.doctor.evidence import PairEvidence
from specc.doctor.finding import Finding, Fix
from specc.doctor.head_kind import head_kind, mask_token
from specc.doctor.rule import Rule
from specc.recipe.models import HeadDraft


def _findings(pair: PairEvidence) -> Iterator[Finding]:
    draft, recipe = pair.draft, pair.recipe.draft
    if draft is None or draft.config is None or pair.target.sizes is None:
        return
    kind = head_kind(draft)
    parallel = isinstance(recipe, HeadDraft) and recipe.kind == "pard" and kind is None
    if not parallel and (kind is None or not kind.block):
        return
    stated, key = mask_token(draft.config)
    where = f"{draft.config.path} {key}"
    if isinstance(recipe, HeadDraft) and recipe.mask_token_id is not None:
        stated, where = recipe.mask_token_id, pair.recipe.place("draft", "mask_token_id")
    owner = draft if parallel else pair.target  # a parallel draft model has a table of its own
    rows = pair.target.sizes.vocab_size if owner.sizes is None else owner.sizes.vocab_size
    if isinstance(stated, int) and not isinstance(stated, bool) and 0 <= stated < rows:
        return
    got = "no mask_token_id" if stated is None else f"mask_token_id {stated}"
    evidence = ((got, where), (f"{rows} rows of embedding", f"{owner.config_place} vocab_size"))
    table, name = ("its own", "PARD") if parallel or kind is None else ("the target's", kind.name)
    message = f"A {name} drafter embeds its mask token with {table} table: it must be a row of it."
    key, example = ("pard_token", "") if parallel else ("mask_token_id", " for Qwen3")
    fix = Fix(f'write the id it was trained with into its config.json, as "{key}": 151669{example}')
    if isinstance(recipe, HeadDraft):
        fix = Fix("draft.mask_token_id: the id that the head was trained with")
    yield Finding("SPC341", "error", pair.recipe.place("draft", "model"), evidence, message, fix)


RULE: Final = Rule("mask_token", ("target config", "draft config"), _findings)
