"""Block drafters fill the block with a mask token, which must be an id that no text uses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from specc.doctor.evidence import PairEvidence
from specc.doctor.finding import Finding, Fix
from specc.doctor.head_kind import head_kind, mask_token
from specc.doctor.rule import Rule


def _findings(pair: PairEvidence) -> Iterator[Finding]:
    draft = pair.draft
    kind = None if draft is None else head_kind(draft)
    if draft is None or draft.config is None or kind is None or not kind.block or pair.target.sizes is None:
        return
    stated, key = mask_token(draft.config)
    rows = pair.target.sizes.vocab_size
    if isinstance(stated, int) and not isinstance(stated, bool) and 0 <= stated < rows:
        return
    got = "no mask_token_id" if stated is None else f"mask_token_id {stated}"
    evidence = (
        (got, f"{draft.config.path} {key}"),
        (f"{rows} rows of embedding", f"{pair.target.config_place} vocab_size"),
    )
    message = f"A {kind.name} drafter embeds its mask token with the target's table: it must be a row of it."
    fix = Fix('write the id it was trained with into its config.json, as "mask_token_id": 151669 for Qwen3')
    yield Finding("SPC341", "error", pair.recipe.place("draft", "model"), evidence, message, fix)


RULE: Final = Rule("mask_token", ("target config", "draft config"), _findings)
