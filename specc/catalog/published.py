"""Published checkpoints that shipped recipes name: what an error says must be downloaded, and how much that takes."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from specc.catalog.sizes import size_text

HUB_CACHE: Final = "models--"
"""What begins a repository's folder in the hub library's cache."""


@dataclass(frozen=True)
class PublishedModel:
    """A checkpoint whose size is known without reading it.

    Attributes:
        parameters: all weights.
        table: weights of the embedding, and of the head where it has its own.
        tied: the embedding is the head.
        bits: of a weight outside these tables, which have 16.
    """

    parameters: int
    table: int
    tied: bool
    bits: int

    @property
    def tables(self) -> int:
        """Weights of embedding and head."""
        return self.table * (1 if self.tied else 2)

    @property
    def nbytes(self) -> int:
        """What the files take."""
        return (self.parameters - self.tables) * self.bits // 8 + 2 * self.tables


PUBLISHED: Final[dict[str, PublishedModel]] = {
    "nvidia/Llama-3.3-70B-Instruct-FP8": PublishedModel(70_553_706_496, 128_256 * 8192, tied=False, bits=8),
    "meta-llama/Llama-3.3-70B-Instruct": PublishedModel(70_553_706_496, 128_256 * 8192, tied=False, bits=16),
    "meta-llama/Llama-3.2-1B-Instruct": PublishedModel(1_235_814_400, 128_256 * 2048, tied=True, bits=16),
}
"""By repository, from the models' configurations."""


def repository_of(uri: str) -> str | None:
    """Return the repository that a recipe's model is known as here: by its hub id, or by the name of its folder."""
    name = uri.removeprefix("hf://").rstrip("/")
    if name in PUBLISHED:
        return name
    folder = Path(name).name
    return next((repository for repository in PUBLISHED if repository.endswith(f"/{folder}")), None)


def download_text(repository: str) -> str:
    """Return how much a repository takes on the disk, in words; empty where it is not known."""
    model = PUBLISHED.get(repository)
    return "" if model is None else f"; it takes {size_text(model.nbytes)} on the disk"


def fill_text(folder: str) -> str:
    """Return the command that fills a folder with a checkpoint, with its size where the folder's name is known."""
    cached = next((part for part in Path(folder).parts if part.startswith(HUB_CACHE)), None)
    if cached is not None:
        repository = cached.removeprefix(HUB_CACHE).replace("--", "/")
        return f"`hf download {repository}` fills it{download_text(repository)}"
    known = repository_of(folder)
    command = f"`hf download {known or 'ORG/NAME'} --local-dir {shlex.quote(folder)}`"
    return f"{command} fills it{'' if known is None else download_text(known)}"
