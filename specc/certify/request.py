"""What to check a bundle on: the short check of a build, or the full one of `specc verify`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias

from specc.bundle.manifest import AcceptanceMode
from specc.bundle.read import Verify
from specc.certify.parity import COUPLED_CELLS, GREEDY_CELLS, ParityCell
from specc.certify.prompt_file import PromptInput
from specc.certify.step_costs import DEFAULT_BUDGET_S
from specc.errors import SpeccError
from specc.speculation.modes import MODES

Scope: TypeAlias = Literal["build", "full"]


@dataclass(frozen=True)
class Extent:
    """How much a check does.

    Attributes:
        prompts: at most so many of them; None is all.
        new_tokens: of each generation, at most.
        sampled: cells beside the greedy one.
        step_cost_s: seconds to measure step costs in.
        reference: whether the engine is held against the reference.
    """

    prompts: int | None
    new_tokens: int
    sampled: tuple[ParityCell, ...]
    step_cost_s: float
    reference: bool


# On two cores SmolLM2-135M takes about 14 s of CPU for `build`, a minute and a half for `full`.
EXTENTS: Final[dict[Scope, Extent]] = {
    "build": Extent(prompts=3, new_tokens=12, sampled=COUPLED_CELLS[-1:], step_cost_s=2.0, reference=False),
    "full": Extent(prompts=None, new_tokens=32, sampled=COUPLED_CELLS, step_cost_s=DEFAULT_BUDGET_S, reference=True),
}


@dataclass(frozen=True)
class CertifyRequest:
    """What to check a bundle on.

    Attributes:
        scope: how much.
        prompts: texts, token ids or chats; None takes the bundled ones, or random ids for a bundle without a tokenizer.
        prompts_sha256: digest of the file that they come from, None for other sources.
        max_new_tokens: of each generation, at most; None is the scope's, or fewer where the bundle has no room for it.
        threads: of engines that run on the CPU; None leaves it to them.
        against: a bundle of the same model in f32 that the target is held against; None: no such comparison.
        verify: `full` compares the digests of all files first, `sizes` only looks that they are there.
    """

    scope: Scope = "full"
    prompts: tuple[PromptInput, ...] | None = None
    prompts_sha256: str | None = None
    max_new_tokens: int | None = None
    threads: int | None = None
    verify: Verify = "full"
    against: Path | None = None

    @property
    def extent(self) -> Extent:
        """How much the scope does."""
        return EXTENTS[self.scope]

    def parity_cells(self, acceptance: AcceptanceMode) -> tuple[ParityCell, ...]:
        """Return the settings under which speculation must give the ids of AR decoding."""
        row = MODES[acceptance]
        return (*GREEDY_CELLS, *self.extent.sampled) if row.samples and row.fixes_ids else GREEDY_CELLS

    def law_cells(self, acceptance: AcceptanceMode) -> tuple[ParityCell, ...]:
        """Return the settings under which speculation keeps the law of the text, but not the text."""
        row = MODES[acceptance]
        return self.extent.sampled if row.samples and row.lossless and not row.fixes_ids else ()

    def refuse_empty(self) -> None:
        """Let a request pass that has something to compare.

        Raises:
            SpeccError: SPC802 the list of prompts is empty.
        """
        if self.prompts is not None and not self.prompts:
            raise SpeccError(
                "SPC802",
                "prompts",
                "no prompt was given",
                "without a generation nothing is shown of the bundle",
                "give at least one prompt, or leave the option out to take the bundled ones",
            )
