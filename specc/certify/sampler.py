"""The law of what an engine picked: generations are held against the logits of their own steps.

Two tests of the same picks. One is exact: the noise is fixed, so the NumPy oracle knows each pick. The other knows
nothing of the noise: a pick's place in the cumulative law of its step, blurred by the pick's own probability, is
uniform on [0,1) if the picks follow the law, whatever the logits are, so steps with different laws can be counted
together. Ids stand in order of falling probability there, so that a wrong temperature pushes all steps one way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from specc.bundle.certificate import SamplerCheck
from specc.certify.chi_square import chi_square_tail
from specc.certify.logits import LogitsEngine
from specc.certify.parity import Ids, ParityCell
from specc.speculation.noise import Float32Array, Int64Array
from specc.speculation.sampling import (
    SamplingRows,
    kept_candidates,
    loosely_kept,
    near_ties,
    sampling_rows,
    scaled_logits,
    target_picks,
)

Float64Array: TypeAlias = npt.NDArray[np.float64]

FALSE_ALARM: Final = 1e-6
MOST_BINS: Final = 16
LEAST_IN_A_BIN: Final = 10
IMPOSSIBLE: Final = 1 + 1e-9
"""Places above it are of picks that the law excludes."""


@dataclass(frozen=True)
class Sampled:
    """What was generated under one setting.

    Attributes:
        cell: the setting; the seed of a prompt is that of `cell.of_prompt`.
        mode: how it was generated.
        prompts: ids before the first step.
        picks: ids that were generated, one entry a prompt; at least one id in all.
        fixed: whether seed and position fix the pick.
    """

    cell: ParityCell
    mode: Literal["ar", "spec"]
    prompts: Sequence[Ids]
    picks: Sequence[Ids]
    fixed: bool


@dataclass(frozen=True)
class Step:
    """The steps of one generation: the ids before them, the ids they picked, the setting with its own seed."""

    prompt: Ids
    picks: Ids
    cell: ParityCell


def check_sampler(sampled: Sampled, logits: LogitsEngine, *, candidates: int, epsilon: float) -> SamplerCheck:
    """Return the check of all picks of one cell.

    Args:
        sampled: the picks.
        logits: of the target.
        candidates: of truncated sampling (manifest).
        epsilon: gap of the two best values under which a step is near a tie. A pick that only logits so near to these
            keep is left out of the law.
    """
    cell, fixed = sampled.cell, sampled.fixed
    steps = [
        Step(prompt, picks, cell.of_prompt(index))
        for index, (prompt, picks) in enumerate(zip(sampled.prompts, sampled.picks, strict=True))
    ]
    places: list[Float64Array] = []
    differing = near = total = 0
    rng = np.random.default_rng(0)
    for step in steps:
        picks = np.array(step.picks, dtype=np.int64)
        if not len(picks):
            continue
        ids = [*step.prompt, *step.picks[:-1]]
        rows = logits.after(ids, len(step.prompt) - 1)  # [n, V]
        in_law = places_in_law(rows, picks, step.cell, candidates, rng.random(len(picks)))
        places.append(in_law[(in_law <= IMPOSSIBLE) | ~_at_the_edge(rows, picks, step.cell, candidates, epsilon)])
        total += len(picks)
        if fixed:
            wrong, excused = _against_oracle(rows, picks, step, candidates, epsilon)
            differing, near = differing + wrong, near + excused
    statistic, freedom = uniformity(np.concatenate(places))
    return SamplerCheck(
        mode=sampled.mode,
        temperature=cell.temperature,
        top_k=cell.top_k,
        top_p=cell.top_p,
        min_p=cell.min_p,
        picks=total,
        differing=differing if fixed else None,
        near_ties=near,
        chi_square=statistic,
        freedom=freedom,
        p_value=chi_square_tail(statistic, freedom) if freedom else 1.0,
        false_alarm=FALSE_ALARM,
    )


def places_in_law(
    logits: Float32Array, picks: Int64Array, cell: ParityCell, candidates: int, blur: Float64Array
) -> Float64Array:
    """Return each pick's place in the cumulative law of its step, float64 [n] in [0,1].

    Args:
        logits: float32 [n,V].
        picks: int64 [n].
        cell: settings of the law; not greedy.
        candidates: of truncated sampling.
        blur: float64 [n] in [0,1), where in the pick's own probability the place lies.

    Returns:
        Probability of all more probable ids (equal ones by lower id) plus blur times that of the pick; above 1 for a
        pick that the law excludes.
    """
    rows = _law_rows(cell)
    kept = kept_candidates(logits[None], rows, candidates)[0]
    z = scaled_logits(logits[None], rows.temperature)[0].astype(np.float64)
    weights = np.where(kept, np.exp(z), 0.0)
    law = weights / weights.sum(axis=-1, keepdims=True)
    own = np.take_along_axis(law, picks[:, None], axis=-1)  # [n, 1]
    before = (law > own) | ((law == own) & (np.arange(law.shape[-1]) < picks[:, None]))
    places = np.where(before, law, 0.0).sum(axis=-1) + blur * own[:, 0]
    return np.asarray(np.where(own[:, 0] > 0, places, 2.0), dtype=np.float64)


def uniformity(places: Float64Array) -> tuple[float, int]:
    """Return the chi-square statistic of places under the uniform law, and its degrees of freedom.

    A place above 1 is impossible under the law and makes the statistic as large as the sample allows. Fewer places than
    fill two bins give 0, 0: no test.
    """
    bins = min(MOST_BINS, len(places) // LEAST_IN_A_BIN)
    if bins < 2:
        return 0.0, 0
    impossible = int((places > IMPOSSIBLE).sum())
    counts = np.bincount(np.minimum((places * bins).astype(np.int64), bins - 1), minlength=bins)
    expected = len(places) / bins
    statistic = float(((counts - expected) ** 2 / expected).sum())
    return (statistic + impossible * len(places), bins - 1)


def _at_the_edge(
    logits: Float32Array, picks: Int64Array, cell: ParityCell, candidates: int, epsilon: float
) -> npt.NDArray[np.bool_]:
    """Return the picks that truncation may have kept where the engine's own logits were a little different, bool [n].

    Logits are computed anew here, in calls of other sizes: where those differ, so does what is at the edge.
    """
    kept = loosely_kept(logits[None], _law_rows(cell), candidates, epsilon)[0]
    return np.asarray(np.take_along_axis(kept, picks[:, None], axis=-1)[:, 0], dtype=np.bool_)


def _law_rows(cell: ParityCell) -> SamplingRows:
    return sampling_rows(np.zeros(1, dtype=np.int64), cell.temperature, cell.top_k, cell.top_p, cell.min_p)


def _against_oracle(
    logits: Float32Array, picks: Int64Array, step: Step, candidates: int, epsilon: float
) -> tuple[int, int]:
    """Return (picks that are not the oracle's, those of them near a tie)."""
    cell = step.cell
    rows = sampling_rows(np.array([cell.seed]), cell.temperature, cell.top_k, cell.top_p, cell.min_p)
    positions = len(step.prompt) + np.arange(len(picks), dtype=np.int64)[None]
    wrong = target_picks(logits[None], rows, positions, candidates).ids[0] != picks
    if not wrong.any():
        return 0, 0
    at = np.flatnonzero(wrong)
    near = near_ties(logits[None, at], rows, positions[:, at], candidates, epsilon)[0]
    return len(at), int(near.sum())
