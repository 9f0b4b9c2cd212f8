"""What the rules look at: of each model whatever could be read, also where the whole checkpoint could not be opened."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeVar

from specc.catalog.gpus import GpuRow
from specc.checkpoint.config_facts import facts_from_config_file
from specc.checkpoint.facts import ModelFacts
from specc.checkpoint.head_folder import WEIGHTS
from specc.checkpoint.hf_folder import CONFIG_FILE
from specc.checkpoint.hf_tokenizer import parts_from_folder
from specc.checkpoint.reference import resolved_from_reference
from specc.checkpoint.shards import INDEX_FILE, headers_from_folder
from specc.checkpoint.source import SourceCheckpoint, TensorHeader
from specc.checkpoint.values import Values, values_from_json_file
from specc.checkpoint.vocabulary import Vocabulary
from specc.doctor.measured_quality import MeasuredQuality
from specc.doctor.sizes import Sizes, sizes_from_facts, sizes_from_values
from specc.errors import SpeccError
from specc.plan.plan import Plan
from specc.plan.sources import source_from_choice
from specc.recipe.models import ModelChoice
from specc.recipe.schema import Recipe

T = TypeVar("T")
OTHER_FORMS: Final = tuple(form for form in WEIGHTS if form != ".safetensors")


@dataclass(frozen=True)
class ModelEvidence:
    """What could be read of one model.

    Attributes:
        role: which of the two.
        choice: of the recipe.
        folder: a folder in Hugging Face's form, or None.
        config: its config.json; None for other formats, or where it is damaged.
        headers: every tensor as stored; None without weights.
        vocabulary: of its tokenizer; None where there is none.
        chat_template: None where there is none.
        sizes: None where neither checkpoint nor configuration tells them.
        facts: of the model as planning sees it; None for a family that specc does not know, or a damaged checkpoint.
        source: the opened checkpoint; None where it was refused.
        failures: what was refused on the way, each once.
    """

    role: Literal["target", "draft"]
    choice: ModelChoice
    folder: Path | None
    config: Values | None
    headers: Mapping[str, TensorHeader] | None
    vocabulary: Vocabulary | None
    chat_template: str | None
    sizes: Sizes | None
    facts: ModelFacts | None
    source: SourceCheckpoint | None
    failures: tuple[SpeccError, ...]

    @property
    def config_place(self) -> str:
        """Where its sizes were read."""
        return self.choice.model if self.config is None else str(self.config.path)

    @property
    def bare(self) -> bool:
        """Whether a configuration lies there without any weights."""
        return (
            self.config is not None and self.folder is not None and self.headers is None and not _weights(self.folder)
        )

    @property
    def unread(self) -> bool:
        """Whether its weights are in a form that is not read, as EAGLE's authors publish theirs."""
        return self.bare and self.folder is not None and any(f.suffix in OTHER_FORMS for f in self.folder.iterdir())


@dataclass(frozen=True)
class PairEvidence:
    """What the rules see.

    Attributes:
        recipe: the user's choices.
        gpu: its row.
        target, draft: the models; no draft where none is named.
        plan: of the recipe; None where planning refused it.
        measured: of the target by an earlier build of the recipe; None where nothing was.
    """

    recipe: Recipe
    gpu: GpuRow
    target: ModelEvidence
    draft: ModelEvidence | None
    plan: Plan | None
    measured: MeasuredQuality | None = None

    @property
    def gpu_place(self) -> str:
        """Where the facts of the GPU stand."""
        return self.recipe.place("gpu") if self.recipe.gpu.own else f"{self.gpu.name} in the catalog"


def model_evidence(
    role: Literal["target", "draft"], choice: ModelChoice, base: Path, *, offline: bool
) -> ModelEvidence:
    """Open a model, or read of it what can be read."""
    failures: list[SpeccError] = []
    folder = _tried(lambda: _folder(choice, base, offline=offline), failures)
    bare = folder is not None and not _weights(folder)
    source = None if bare else _tried(lambda: source_from_choice(choice, base, offline=offline), failures)
    config = None if folder is None else _tried(lambda: values_from_json_file(folder / CONFIG_FILE), failures)
    if source is not None:
        return ModelEvidence(
            role, choice, folder, config, source.headers, source.vocabulary, source.tokens.chat_template,
            sizes_from_facts(source.facts), source.facts, source, (),
        )  # fmt: skip
    headers = None if folder is None or bare else _tried(lambda: headers_from_folder(folder), failures)
    parts = None if folder is None else _tried(lambda: parts_from_folder(folder), failures)
    facts = _tried(lambda: facts_from_config_file(folder), failures) if folder is not None and bare else None
    return ModelEvidence(
        role=role,
        choice=choice,
        folder=folder,
        config=config,
        headers=headers,
        vocabulary=None if parts is None else parts.vocabulary,
        chat_template=None if parts is None else parts.chat_template,
        sizes=None if config is None else sizes_from_values(config),
        facts=facts,
        source=None,
        failures=tuple({(failure.code, failure.place): failure for failure in reversed(failures)}.values())[::-1],
    )


def _folder(choice: ModelChoice, base: Path, *, offline: bool) -> Path | None:
    path = resolved_from_reference(
        choice.model, base=base, revision=choice.revision, offline=offline, weights=True
    ).path
    return path if (path / CONFIG_FILE).is_file() else None


def _weights(folder: Path) -> bool:
    return (folder / INDEX_FILE).is_file() or any(folder.glob("*.safetensors"))


def _tried(call: Callable[[], T], failures: list[SpeccError]) -> T | None:
    try:
        return call()
    except SpeccError as error:
        failures.append(error)
        return None
