"""The source checkpoints that a recipe names, opened: configurations and headers, no weights."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from specc.checkpoint.open import source_from_reference
from specc.checkpoint.source import SourceCheckpoint
from specc.recipe.models import ModelChoice, ModelDraft
from specc.recipe.schema import Recipe


@dataclass(frozen=True)
class Sources:
    """The opened checkpoints of a recipe; `draft` where a draft model has one of its own."""

    target: SourceCheckpoint
    draft: SourceCheckpoint | None


def sources_from_recipe(recipe: Recipe, base: Path, *, offline: bool) -> Sources:
    """Open the source checkpoints: configurations and headers; relative paths start at `base`."""
    draft = recipe.draft
    return Sources(
        target=source_from_choice(recipe.target, base, offline=offline),
        draft=source_from_choice(draft, base, offline=offline) if isinstance(draft, ModelDraft) else None,
    )


def source_from_choice(choice: ModelChoice, base: Path, *, offline: bool) -> SourceCheckpoint:
    """Open the checkpoint of one model of a recipe."""
    return source_from_reference(
        choice.model,
        base=base,
        revision=choice.revision,
        tokenizer=choice.tokenizer,
        chat_template=choice.chat_template,
        offline=offline,
    )
