"""Checks of a sampler's law, for any sampler: the NumPy oracle, its mutants, a compiled engine.

A statistical check returns a p-value; a sampler fails it below `FALSE_ALARM`, so a true one fails one in a million
checks at a random seed, and never at the fixed seeds used here. A pick of probability zero gives p = 0. An exact check
returns how many picks differ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import stats

from specc.speculation.distribution import processed_distribution
from specc.speculation.noise import Float32Array, Int64Array
from specc.speculation.sampling import SamplingRows, near_ties, sampling_rows, target_picks

Float64Array: TypeAlias = npt.NDArray[np.float64]
Sampler: TypeAlias = Callable[[Float32Array, SamplingRows, Int64Array], Int64Array]
"""(logits float32 [B,R,V], sampling of B rows, positions int64 [B,R]) -> picks int64 [B,R]."""

FALSE_ALARM = 1e-6


@dataclass(frozen=True)
class Setting:
    """One setting of the sampler; the defaults are plain sampling at temperature 1."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0

    def rows(self, seeds: Int64Array) -> SamplingRows:
        return sampling_rows(seeds, self.temperature, self.top_k, self.top_p, self.min_p)

    def law(self, logits: Float32Array, candidates: int) -> Float64Array:
        return processed_distribution(
            logits,
            temperature=self.temperature,
            top_k=self.top_k,
            top_p=self.top_p,
            min_p=self.min_p,
            candidates=candidates,
        )


CANDIDATES = 8
SEEDS = np.random.default_rng(5).integers(0, 1 << 32, 12_000)
LOGITS = np.random.default_rng(6).normal(0, 1.5, 12).astype(np.float32)
TIED = np.array([0, 2, 1, 2, 2, 1, 1, 0, 2, 1], dtype=np.float32)
SETTINGS = {
    "greedy": Setting(temperature=0.0),
    "under_the_greedy_bound": Setting(temperature=1e-6),
    "plain": Setting(),
    "cold": Setting(temperature=0.5),
    "hot": Setting(temperature=2.0),
    "top_k": Setting(temperature=0.8, top_k=3),
    "top_k_beyond_the_candidates": Setting(temperature=1.5, top_k=100),
    "top_p": Setting(temperature=1.7, top_p=0.7),
    "min_p": Setting(temperature=1.2, min_p=0.21),
    "all": Setting(temperature=1.4, top_k=6, top_p=0.83, min_p=0.11),
}


def rows_of(sampling: SamplingRows, rows: slice) -> SamplingRows:
    """Return some rows of a batch."""
    return SamplingRows(
        temperature=sampling.temperature[rows],
        top_k=sampling.top_k[rows],
        top_p=sampling.top_p[rows],
        min_p=sampling.min_p[rows],
        seed=sampling.seed[rows],
    )


def oracle_sampler(candidates: int) -> Sampler:
    """Return the NumPy oracle as a sampler."""
    return lambda logits, sampling, positions: target_picks(logits, sampling, positions, candidates).ids


def picks_of_one_law(
    sampler: Sampler, logits: Float32Array, setting: Setting, seeds: Int64Array, *, first_position: int, rows: int
) -> Int64Array:
    """Return picks [B,rows] for B seeds at consecutive positions, all from the same logits [V]."""
    shape = (len(seeds), rows, len(logits))
    positions = np.broadcast_to(first_position + np.arange(rows, dtype=np.int64), shape[:2])
    return sampler(np.ascontiguousarray(np.broadcast_to(logits, shape)), setting.rows(seeds), positions)


def law_p(picks: Int64Array, law: Float64Array) -> float:
    """Return the chi-square p-value of picks, any shape, under the probabilities [V]; rare ids are pooled."""
    counts = np.bincount(picks.ravel(), minlength=len(law))
    if len(counts) > len(law) or counts[law == 0].any():
        return 0.0
    expected = law * picks.size
    common = expected >= 10
    observed, wanted = counts[common], expected[common]
    if not common.all() and expected[~common].sum() > 0:
        observed = np.append(observed, counts[~common].sum())
        wanted = np.append(wanted, expected[~common].sum())
    if len(wanted) == 1:
        return 1.0
    return float(stats.chi2.sf(((observed - wanted) ** 2 / wanted).sum(), len(wanted) - 1))


def independence_p(first: Int64Array, second: Int64Array, law: Float64Array) -> float:
    """Return the chi-square p-value of paired picks [N] under law x law: same law, no dependence."""
    joint = np.outer(law, law).ravel()
    return law_p(first * len(law) + second, joint)


def adjacent_rows_p(
    sampler: Sampler, logits: Float32Array, setting: Setting, seeds: Int64Array, candidates: int
) -> float:
    """Return the p-value that picks at one position and the next, of one call and one seed, are independent."""
    picks = picks_of_one_law(sampler, logits, setting, seeds, first_position=17, rows=2)
    return independence_p(picks[:, 0], picks[:, 1], setting.law(logits, candidates))


def batch_rows_p(
    sampler: Sampler, logits: Float32Array, setting: Setting, seeds: Int64Array, candidates: int, *, position: int = 17
) -> float:
    """Return the p-value that neighbours of a batch, with different seeds at one position, are independent."""
    picks = picks_of_one_law(sampler, logits, setting, seeds, first_position=position, rows=1)[:, 0]
    even = len(picks) // 2 * 2
    return independence_p(picks[0:even:2], picks[1:even:2], setting.law(logits, candidates))


def differs_from_single_calls(
    sampler: Sampler, logits: Float32Array, sampling: SamplingRows, positions: Int64Array
) -> int:
    """Return how many picks of a [B,R] call differ from those of B*R calls of one row (an AR step each)."""
    together = sampler(logits, sampling, positions)
    different = 0
    for b, r in np.ndindex(positions.shape):
        one_row, one_logit_row = slice(b, b + 1), slice(r, r + 1)
        alone = sampler(logits[one_row, one_logit_row], rows_of(sampling, one_row), positions[one_row, one_logit_row])
        different += int(alone[0, 0] != together[b, r])
    return different


def differs_from_oracle(
    sampler: Sampler,
    logits: Float32Array,
    sampling: SamplingRows,
    positions: Int64Array,
    *,
    candidates: int,
    epsilon: float,
) -> tuple[int, int]:
    """Return (picks that differ and are no near ties, picks that differ and are)."""
    different = sampler(logits, sampling, positions) != target_picks(logits, sampling, positions, candidates).ids
    near = near_ties(logits, sampling, positions, candidates, epsilon)
    return int((different & ~near).sum()), int((different & near).sum())


def marginal_p(sampler: Sampler, logits: Float32Array, setting: Setting) -> float:
    """Return the p-value of 24 000 picks over seeds and two positions; a truncating sampler has `CANDIDATES`."""
    picks = picks_of_one_law(sampler, logits, setting, SEEDS, first_position=40, rows=2)
    return law_p(picks, setting.law(logits, CANDIDATES))


def mixed_batch() -> tuple[Float32Array, SamplingRows, Int64Array]:
    """Return a call of 10 rows, one a setting, of 5 logit rows over 300 ids, at ragged positions."""
    rng = np.random.default_rng(7)
    settings, seeds = SETTINGS.values(), rng.integers(0, 1 << 32, len(SETTINGS))
    sampling = SamplingRows(
        temperature=np.array([s.temperature for s in settings], dtype=np.float32),
        top_k=np.array([s.top_k for s in settings], dtype=np.int64),
        top_p=np.array([s.top_p for s in settings], dtype=np.float32),
        min_p=np.array([s.min_p for s in settings], dtype=np.float32),
        seed=seeds,
    )
    positions = rng.integers(1, 5000, (len(seeds), 1)) + np.arange(5)
    return rng.normal(0, 2, (len(seeds), 5, 300)).astype(np.float32), sampling, positions
