"""Speculative ids against autoregressive (AR) ids: equal to the last one, in greedy and in coupled sampling.

A difference is excused only where the AR step itself was near a tie: its two best values lay closer than epsilon, so
that rounding, which differs between calls of one row and of several, may pick either. It is counted, never hidden.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, Protocol, TypeAlias

from specc.bundle.certificate import Divergence, ParityCheck
from specc.runtime.generation import Generation
from specc.runtime.params import GenerationParams, Mode

Ids: TypeAlias = Sequence[int]
Judge: TypeAlias = Callable[[Ids, "ParityCell"], "Narrowness"]
"""(prompt and tokens before the step, settings) -> how narrowly the AR step that follows was decided."""

SEED_STRIDE: Final = 1000


@dataclass(frozen=True)
class Narrowness:
    """How narrowly a step was decided: see `Divergence.margin` and `Divergence.near_tie`."""

    margin: float | None
    near_tie: bool


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

    def of_prompt(self, index: int) -> ParityCell:
        """Return the setting of one prompt: its seed is its own, so that prompts share no noise."""
        return replace(self, seed=self.seed + SEED_STRIDE * index)


GREEDY_CELLS: Final = (ParityCell(),)
COUPLED_CELLS: Final = (
    ParityCell(temperature=0.3, seed=1),
    ParityCell(temperature=0.8, seed=2),
    ParityCell(temperature=1.2, top_k=50, top_p=0.9, min_p=0.02, seed=3),
)


class Generator(Protocol):
    """What parity needs of a session."""

    def __call__(self, prompts: Sequence[Ids], params: Sequence[GenerationParams]) -> Sequence[Generation]:
        """Return the generation of each prompt, all on one target engine; prompts may share calls."""


@dataclass(frozen=True)
class Parity:
    """The result of one cell: its counts and divergences, and what AR generated, one entry a prompt."""

    check: ParityCheck
    ar: tuple[Generation, ...]


def check_parity(
    generate: Generator,
    prompts: Sequence[Ids],
    cell: ParityCell,
    judge: Judge,
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
        judge: of the AR step at the first difference, with a gap under `epsilon`.
        gamma: drafts a round.
        max_new_tokens: of each generation.
        epsilon: what `judge` was made with, for the record.
    """
    cells = [cell.of_prompt(index) for index in range(len(prompts))]
    ar = tuple(generate(prompts, [_params(own, "ar", None, max_new_tokens) for own in cells]))
    speculative = speculated(generate, prompts, cell, gamma, max_new_tokens)
    divergences = []
    for index, (reference, tested) in enumerate(zip(ar, speculative, strict=True)):
        at = first_difference(reference.token_ids, tested.token_ids)
        if at is None:
            continue
        decided = judge([*prompts[index], *reference.token_ids[:at]], cells[index])
        both_go_on = at < min(len(reference.token_ids), len(tested.token_ids))
        divergences.append(
            Divergence(
                prompt=index,
                token=at,
                ar=_id_at(reference.token_ids, at),
                speculative=_id_at(tested.token_ids, at),
                margin=decided.margin,
                near_tie=both_go_on and decided.near_tie,
            )
        )
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
        equal=len(prompts) - len(divergences),
        near_ties=sum(divergence.near_tie for divergence in divergences),
        epsilon=epsilon,
        divergences=tuple(divergences),
    )
    return Parity(check, ar)


def speculated(
    generate: Generator, prompts: Sequence[Ids], cell: ParityCell, gamma: int, max_new_tokens: int
) -> tuple[Generation, ...]:
    """Return what speculation generates for each prompt under a setting; arguments as in `check_parity`."""
    cells = [cell.of_prompt(index) for index in range(len(prompts))]
    return tuple(generate(prompts, [_params(own, "spec", gamma, max_new_tokens) for own in cells]))


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
