"""How a chain of sampled drafts is judged: the rules of rejection, block and typical acceptance, in any precision.

    rejection   draft j passes with chance min(1, p(d)/q(d)); the first that fails ends the chain; then norm(max(p-q,0))
    block       pi_i = min(1, pi_{i-1} p(d_i)/q(d_i)), pi_0 = 1; draft i passes with chance R_i / (R_i + 1 - pi_i),
                R_i = sum max(pi_i p - q, 0) at the row after it, the last one with chance pi; the *last* that passes
                ends the accepted part; then norm(max(pi p - q, 0))
    typical     draft j passes iff p(d) > min(epsilon, delta exp(-H(p))); the first that fails ends the chain; then p

A chance is a fraction: a draft passes iff u * denominator < numerator. Where nothing is left of max(..., 0), p is used:
the case has no probability of its own, rounding alone leads there. After the last draft the token is drawn from p.
Source: Leviathan et al. arXiv:2211.17192; Sun et al. arXiv:2403.10444; Cai et al. arXiv:2401.10774.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from specc.bundle.manifest import AcceptanceMode
from specc.speculation.modes import MODES, TypicalSpec
from specc.speculation.noise import Int64Array

RealArray: TypeAlias = npt.NDArray[np.floating[Any]]
BoolArray: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Rule:
    """An acceptance mode that judges by probabilities; `typical` has its parameters, the others None."""

    mode: AcceptanceMode
    typical: TypicalSpec | None = None


REJECTION = Rule("rejection")
BLOCK = Rule("block")


@dataclass(frozen=True, eq=False)
class JudgedChain:
    """What a rule sees. The arithmetic has the precision of p and q.

    Attributes:
        p: [B,R,V], the target's processed distribution at each logit row.
        q: [B,R,V], at row j the distribution that the draft judged there was drawn from; row R-1 is not read.
        drafts: int64 [B,R-1], the draft judged at each row.
        num_draft: int64 [B], at most R-1.
    """

    p: RealArray
    q: RealArray
    drafts: Int64Array
    num_draft: Int64Array


@dataclass(frozen=True, eq=False)
class Odds:
    """Chances of the drafts and the weights of what is left.

    Attributes:
        numerator, denominator: [B,R-1], the chance of each draft as a fraction, which may exceed 1.
        weight: [B,R], pi of the block rule for each number of accepted drafts; 1 for the other rules.
    """

    numerator: RealArray
    denominator: RealArray
    weight: RealArray


def odds_from_chain(rule: Rule, chain: JudgedChain) -> Odds:
    """Return the chance that each draft passes.

    Source: drafters.md sections 6.1, 6.5 and 6.7.
    Checked by: tests/numerics/test_acceptance_law.py
    """
    batch, rows = chain.p.shape[:2]
    weight = np.ones((batch, rows), dtype=chain.p.dtype)
    p_draft = _of_drafts(chain.p, chain.drafts)
    if rule.typical is not None:
        passes = p_draft > _typical_threshold(chain.p[:, : rows - 1], rule.typical)
        return Odds(passes.astype(chain.p.dtype), weight[:, : rows - 1], weight)
    q_draft = _of_drafts(chain.q, chain.drafts, beyond=1)
    if rule.mode == "rejection":
        return Odds(p_draft, q_draft, weight)
    for i in range(1, rows):
        weight[:, i] = np.minimum(1, weight[:, i - 1] * (p_draft[:, i - 1] / q_draft[:, i - 1]))
    own = weight[:, 1:]
    following = np.minimum(np.arange(1, rows), rows - 1)
    left = np.maximum(own[..., None] * chain.p[:, following] - chain.q[:, following], 0).sum(axis=-1)
    is_last = np.arange(1, rows) == chain.num_draft[:, None]
    return Odds(np.where(is_last, own, left), np.where(is_last, 1, left + 1 - own), weight)


def num_accepted_from_passes(rule: Rule, passes: BoolArray, num_draft: Int64Array) -> Int64Array:
    """Return how many drafts are accepted, int64 [B], from which of them pass, bool [B,R-1]."""
    column = np.arange(passes.shape[1])
    passed = passes & (column < num_draft[:, None])
    if MODES[rule.mode].redraws:
        last = np.where(passed, column + 1, 0).max(axis=1, initial=0)
        return np.asarray(last, dtype=np.int64)
    return np.asarray(np.cumprod(passed, axis=1, dtype=np.int64).sum(axis=1), dtype=np.int64)


def own_law(rule: Rule, chain: JudgedChain, odds: Odds, accepted: Int64Array) -> RealArray:
    """Return the law of the target's own token after `accepted` drafts (int64 [B]), [B,V], not normalised."""
    rows = np.arange(len(accepted))
    p = chain.p[rows, accepted]
    if rule.typical is not None:
        return p
    judged = (accepted < chain.num_draft)[:, None]
    left = np.maximum(odds.weight[rows, accepted][:, None] * p - chain.q[rows, accepted], 0)
    law = np.where(judged, left, p)
    return np.asarray(np.where(law.max(axis=-1, keepdims=True) > 0, law, p))


def _of_drafts(law: RealArray, drafts: Int64Array, beyond: int = 0) -> RealArray:
    """Return what a law says of the drafts, [B,R-1]; `beyond` for ids outside the vocabulary."""
    safe = np.minimum(drafts, law.shape[-1] - 1)[..., None]
    found = np.take_along_axis(law[:, : drafts.shape[1]], safe, axis=-1)[..., 0]
    return np.asarray(np.where(drafts < law.shape[-1], found, beyond))


def _typical_threshold(p: RealArray, parameters: TypicalSpec) -> RealArray:
    logs = np.log(np.where(p > 0, p, 1))
    entropy = -(p * logs).sum(axis=-1)
    return np.asarray(np.minimum(parameters.epsilon, parameters.delta * np.exp(-entropy)))
