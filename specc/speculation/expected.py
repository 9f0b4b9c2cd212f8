"""Expected tokens a round, predicted speed-up over autoregressive (AR) decoding, and the gamma that maximises it.

E[tokens] = 1 + sum over k of the product of the first k conditional acceptances: a rejection discards all drafts after
it, and the target always adds one token of its own. The blog form 1 + gamma * acceptance is wrong for gamma > 1.
Source: drafters.md section 7 (Leviathan et al., arXiv:2211.17192, for the case of equal acceptances).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

Cost: TypeAlias = Callable[[int], float]


@dataclass(frozen=True)
class GammaChoice:
    """A number of drafts a round and its predicted speed-up over AR; gamma 0 is AR itself, speed-up 1."""

    gamma: int
    speedup: float


def expected_tokens(conditional_acceptance: Sequence[float]) -> float:
    """Return the expected tokens of a round, the target's own token included.

    Args:
        conditional_acceptance: [k] = chance that draft k is accepted given that all before it were; one entry a draft.

    Returns:
        A number from 1 to len(conditional_acceptance) + 1. It equals the MAL.
    """
    total, survival = 1.0, 1.0
    for acceptance in conditional_acceptance:
        survival *= acceptance
        total += survival
    return total


def geometric_expected_tokens(acceptance: float, gamma: int) -> float:
    """Return (1 - acceptance^(gamma+1)) / (1 - acceptance): expected tokens when all drafts share one acceptance."""
    if acceptance == 1.0:
        return gamma + 1.0
    return float((1 - acceptance ** (gamma + 1)) / (1 - acceptance))


def no_draft_cost(_gamma: int) -> float:
    """Return 0: the price of drafting for kinds without a model, n-gram for one."""
    return 0.0


def predicted_speedup(
    conditional_acceptance: Sequence[float], gamma: int, step_cost: Cost, draft_cost: Cost = no_draft_cost
) -> float:
    """Return the tokens a second of speculation over those of AR decoding.

    Args:
        conditional_acceptance: [k] as in `expected_tokens`; positions it does not reach repeat its last entry, and an
            empty one means that nothing is ever accepted.
        gamma: drafts a round; 0 is AR.
        step_cost: seconds of one target call with that many tokens a row; `step_cost(1)` is an AR step.
        draft_cost: seconds to draft gamma tokens.

    Returns:
        expected tokens * step_cost(1) / (step_cost(gamma + 1) + draft_cost(gamma)); 1 for gamma 0.
    """
    if gamma == 0:
        return 1.0
    known = list(conditional_acceptance[:gamma]) or [0.0]
    reached = known + known[-1:] * (gamma - len(known))
    return expected_tokens(reached) * step_cost(1) / (step_cost(gamma + 1) + draft_cost(gamma))


def best_gamma(
    conditional_acceptance: Sequence[float], step_cost: Cost, max_gamma: int, draft_cost: Cost = no_draft_cost
) -> GammaChoice:
    """Return the gamma from 0 to `max_gamma` with the largest predicted speed-up, the smallest on ties.

    Arguments as in `predicted_speedup`.
    """
    choices = [
        GammaChoice(gamma, predicted_speedup(conditional_acceptance, gamma, step_cost, draft_cost))
        for gamma in range(max_gamma + 1)
    ]
    return max(choices, key=lambda choice: (choice.speedup, -choice.gamma))
