"""Speculative ids against autoregressive (AR) ids: equal to the last one, in greedy and in coupled sampling.

A difference is excused only where the AR step itself was near a tie: its two best values lay closer than epsilon, so
that rounding, which differs between calls of one row and of several, may pick either. It is counted, never hidden.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol, TypeAlias

from specc.bundle.certificate import ParityCheck
from specc.runtime.generation import Generation
from specc.runtime.params import GenerationParams, Mode

Ids: TypeAlias = Sequence[int]
NearTie: TypeAlias = Callable[[Ids, "ParityCell"], bool]
"""(prompt and tokens before the step, settings) -> whether the AR step that follows was near a tie."""


@dataclass(frozen=True)
class ParityCell:
    """One setting under which both ways generate; the defaults are greedy."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int = 0

    @property
    def mode(self) -> Literal["greedy", "coupled"]:
        """The acceptance mode."""
        return "greedy" if self.temperature == 0 else "coupled"


GREEDY_CELLS: Final = (ParityCell(),)
COUPLED_CELLS: Final = (
    ParityCell(temperature=0.3, seed=1),
    ParityCell(temperature=0.8, seed=2),
    ParityCell(temperature=1.2, top_k=50, top_p=0.9, min_p=0.02, seed=3),
)


class Generator(Protocol):
    """What parity needs of a session."""

    def __call__(self, prompts: Sequence[Ids], params: GenerationParams) -> Sequence[Generation]:
        """Return the generation of each prompt, all on one target engine; prompts may share calls."""


@dataclass(frozen=True)
class Difference:
    """A prompt whose two generations differ and were not near a tie.

    Attributes:
        cell: the setting.
        prompt: index of the prompt.
        token: index of the first generated token that differs.
        ar: the id that AR generated there, None where it had ended.
        speculative: the id that speculation generated there, None where it had ended.
    """

    cell: ParityCell
    prompt: int
    token: int
    ar: int | None
    speculative: int | None

    def __str__(self) -> str:
        ar, speculative = (("the end" if x is None else f"id {x}") for x in (self.ar, self.speculative))
        return (
            f"{self.cell.mode}, temperature {self.cell.temperature}, seed {self.cell.seed}: prompt {self.prompt} "
            f"differs at generated token {self.token}: AR gave {ar}, speculation {speculative}"
        )


@dataclass(frozen=True)
class Parity:
    """The result of one cell: its counts, and every difference that is no near tie."""

    check: ParityCheck
    differences: tuple[Difference, ...]


def check_parity(
    generate: Generator,
    prompts: Sequence[Ids],
    cell: ParityCell,
    near_tie: NearTie,
    *,
    gamma: int,
    max_new_tokens: int,
    epsilon: float,
) -> Parity:
    """Generate every prompt twice, AR and with speculation, and compare the ids.

    Stop ids end generations as they do for a user.

    Args:
        generate: of a session.
        prompts: token ids, at least one prompt.
        cell: the setting.
        near_tie: judges the AR step at the first difference, with a gap under `epsilon`.
        gamma: drafts a round.
        max_new_tokens: of each generation.
        epsilon: what `near_tie` was made with, for the record.
    """
    ar = generate(prompts, _params(cell, "ar", None, max_new_tokens))
    speculative = generate(prompts, _params(cell, "spec", gamma, max_new_tokens))
    near_ties = 0
    differences = []
    for index, (reference, tested) in enumerate(zip(ar, speculative, strict=True)):
        at = first_difference(reference.token_ids, tested.token_ids)
        if at is None:
            continue
        both_go_on = at < min(len(reference.token_ids), len(tested.token_ids))
        if both_go_on and near_tie([*prompts[index], *reference.token_ids[:at]], cell):
            near_ties += 1
        else:
            ids = (_id_at(generation.token_ids, at) for generation in (reference, tested))
            differences.append(Difference(cell, index, at, *ids))
    check = ParityCheck(
        mode=cell.mode,
        temperature=cell.temperature,
        top_k=cell.top_k,
        top_p=cell.top_p,
        min_p=cell.min_p,
        gamma=gamma,
        prompts=len(prompts),
        tokens=sum(len(generation.token_ids) for generation in ar),
        rounds=sum(generation.statistics.rounds for generation in speculative),
        accepted=sum(generation.statistics.accepted for generation in speculative),
        equal=len(prompts) - near_ties - len(differences),
        near_ties=near_ties,
        epsilon=epsilon,
    )
    return Parity(check, tuple(differences))


def first_difference(one: Ids, other: Ids) -> int | None:
    """Return the index of the first token in which two generations differ; one that ends early differs at its end."""
    for index, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return index
    return None if len(one) == len(other) else min(len(one), len(other))


def _params(cell: ParityCell, mode: Mode, gamma: int | None, max_new_tokens: int) -> GenerationParams:
    return GenerationParams(
        max_new_tokens=max_new_tokens,
        temperature=cell.temperature,
        top_k=cell.top_k,
        top_p=cell.top_p,
        min_p=cell.min_p,
        seed=cell.seed,
        mode=mode,
        gamma=gamma,
    )


def _id_at(ids: Ids, index: int) -> int | None:
    return ids[index] if index < len(ids) else None
