"""The source checkpoints that a recipe names, opened: configurations and headers, no weights."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from specc.checkpoint.head_folder import HeadFolder, head_from_reference
from specc.checkpoint.open import source_from_reference
from specc.checkpoint.source import SourceCheckpoint
from specc.errors import SpeccError
from specc.plan.trtllm_disk import with_disk_of_build
from specc.recipe.models import DraftChoice, Eagle3Draft, HeadDraft, ModelChoice, ModelDraft
from specc.recipe.schema import Recipe


@dataclass(frozen=True)
class Sources:
    """The opened checkpoints of a recipe.

    Attributes:
        target: its checkpoint.
        draft: where a draft model has one of its own.
        head: files of a head that drafts, where they are on this machine.
    """

    target: SourceCheckpoint
    draft: SourceCheckpoint | None
    head: HeadFolder | None = None

    @property
    def of_draft(self) -> SourceCheckpoint | HeadFolder | None:
        """What drafts, as far as it has files of its own here."""
        return self.draft or self.head


class OpenSources(Protocol):
    """The form of `sources_from_recipe`."""

    def __call__(self, recipe: Recipe, base: Path, *, offline: bool) -> Sources:
        """Open the checkpoints."""


def sources_from_recipe(recipe: Recipe, base: Path, *, offline: bool) -> Sources:
    """Open the source checkpoints: configurations and headers; relative paths start at `base`.

    Raises:
        SpeccError: SPC2nn one is absent, whose fix says what the whole recipe takes on the disk too, or is damaged.
    """
    draft = recipe.draft
    try:
        return Sources(
            target=source_from_choice(recipe.target, base, offline=offline),
            draft=source_from_choice(draft, base, offline=offline) if isinstance(draft, ModelDraft) else None,
            head=head_from_choice(draft, base),
        )
    except SpeccError as error:
        raise with_disk_of_build(error, recipe) from None


def head_from_choice(draft: DraftChoice, base: Path) -> HeadFolder | None:
    """Return the files of a drafter's head; None for other drafters, and for a head that is named by its hub id."""
    head = draft.model if isinstance(draft, Eagle3Draft | HeadDraft) else None
    return None if head is None else head_from_reference(head, base)


def source_from_choice(choice: ModelChoice, base: Path, *, offline: bool) -> SourceCheckpoint:
    """Open the checkpoint of one model of a recipe.

    Raises:
        SpeccError: SPC2nn as above; SPC410 the texts of its calibration, which a build will read, are not there.
    """
    if choice.calibration is not None and not (base / choice.calibration).is_file():
        raise SpeccError(
            "SPC410",
            str(base / choice.calibration),
            "there is no such file",
            "the recipe names it as calibration",
            "give the path of a file of texts, relative to the recipe's folder; absent, specc takes its own",
        )
    return source_from_reference(
        choice.model,
        base=base,
        revision=choice.revision,
        tokenizer=choice.tokenizer,
        chat_template=choice.chat_template,
        offline=offline,
    )
