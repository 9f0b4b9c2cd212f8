"""Acceptance statistics: one definition each, used by runs, certificates and the planner.

A *round* is a target call in which a row had num_draft >= 1. *Proposed* counts drafts sent to the target. *Evaluated*
counts drafts up to and including the first rejection. *Accepted* counts drafts that were kept. MAL, the mean accepted
length, is tokens a round: accepted + 1, the target's own token included. Calls without a draft are AR steps, not
rounds. Tokens that are cut afterwards (EOS, stop, length) still count: the engine did accept them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Fallback:
    """A change from speculation to AR: after how many generated tokens, and why."""

    at_token: int
    reason: str


@dataclass(frozen=True)
class AcceptanceStatistics:
    """Counts of one request, or the sum over several.

    Attributes:
        rounds: target calls with at least one draft.
        ar_steps: target calls that generated without a draft.
        no_proposal: those of ar_steps in which the drafter was asked and had nothing to propose.
        proposed: drafts sent.
        accepted: drafts kept.
        proposed_per_position: [k] = rounds in which a draft at position k was sent.
        evaluated_per_position: [k] = rounds in which all drafts before k were accepted and one at k was sent.
        accepted_per_position: [k] = rounds in which the draft at k was accepted.
    """

    rounds: int
    ar_steps: int
    no_proposal: int
    proposed: int
    accepted: int
    proposed_per_position: tuple[int, ...]
    evaluated_per_position: tuple[int, ...]
    accepted_per_position: tuple[int, ...]

    @property
    def mal(self) -> float | None:
        """Mean accepted length, tokens a round with the bonus token; None without a round."""
        return None if self.rounds == 0 else (self.accepted + self.rounds) / self.rounds

    @property
    def conditional_acceptance(self) -> tuple[float, ...]:
        """[k] = accepted / evaluated at position k: the chance of acceptance given that all before were accepted."""
        return tuple(
            accepted / evaluated if evaluated else 0.0
            for accepted, evaluated in zip(self.accepted_per_position, self.evaluated_per_position, strict=True)
        )
