"""How often drafts of another model are accepted, and the law of the text with them: whole engines and rounds."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from scipy import stats

from specc.runtime import GenerationParams
from specc.runtime.runners.onnxruntime import OnnxRuntimeRunner
from tests.draft_pairs import NOISY, TARGET, Pairs, last_logits

FALSE_ALARM = 1e-4


@pytest.fixture(scope="module")
def pairs(tmp_path_factory) -> Pairs:
    return Pairs(tmp_path_factory.mktemp("pairs"))


def overlap(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Return for each id the probability that it is drafted and accepted by a weighing of both laws."""
    return np.minimum(p, q)


def coupling(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Return for each id the probability that it wins the race of both laws, run with the same exponential times.

    Id i wins both iff the time of each other j is longer than its own by the larger of p_j / p_i and q_j / q_i.
    """
    found = np.zeros_like(p)
    for i in np.flatnonzero((p > 0) & (q > 0)):
        found[i] = 1 / np.maximum(p / p[i], q / q[i]).sum()
    return found


@pytest.mark.parametrize(
    ("acceptance", "gamma", "match"),
    [("rejection", 1, overlap), ("rejection", 2, overlap), ("block", 1, overlap), ("coupled", 1, coupling),
     ("coupled", 2, coupling)],
)  # fmt: skip
def test_a_draft_with_noise_is_accepted_as_often_as_the_two_laws_say(pairs, acceptance, gamma, match):
    """All drafts of the first round: within five standard errors of what the logits of both models give."""
    seeds, prompt, sampling = 2000, 7, {"temperature": 0.9, "top_k": 8}
    params = [
        GenerationParams(max_new_tokens=gamma + 1, seed=seed, mode="spec", gamma=gamma, ignore_eos=True, **sampling)
        for seed in range(seeds)
    ]
    made = pairs.session("noisy", acceptance).generate([[prompt]] * seeds, params)
    accepted = sum(g.statistics.accepted_per_position[gamma - 1] for g in made)  # later rounds have fewer drafts
    target = pairs.engines(f"target-{acceptance}-{{}}", TARGET).runner("logits")
    noisy = pairs.engines("noisy", NOISY).runner("logits")

    def matches(*ids: int) -> np.ndarray:
        return match(law_after(target, ids, **sampling), law_after(noisy, ids, **sampling))

    expected = matches(prompt)
    chance = expected.sum()
    if gamma == 2:
        chance = sum(expected[x] * matches(prompt, int(x)).sum() for x in np.flatnonzero(expected))
    assert 0.1 < chance < 0.9
    assert abs(accepted / seeds - chance) < 5 * np.sqrt(chance * (1 - chance) / seeds)


def law_after(runner: OnnxRuntimeRunner, ids: tuple[int, ...], temperature: float, top_k: int) -> np.ndarray:
    """Return the law of the token after the ids, float64 [V]."""
    row = last_logits(runner, ids).astype(np.float64) / temperature
    row[np.argsort(-row, kind="stable")[top_k:]] = -np.inf
    weights = np.exp(row - row.max())
    return np.asarray(weights / weights.sum())


@pytest.mark.parametrize("acceptance", ["rejection", "block"])
def test_drawn_drafts_of_another_model_leave_the_law_of_the_target(pairs, acceptance):
    """Two tokens after a one-token prompt, in one round of one draft: their joint law, over 16 pairs."""
    seeds, prompt, top_k = 3000, 65, 4
    session = pairs.session("smaller", acceptance)
    params = [
        GenerationParams(max_new_tokens=2, temperature=0.9, top_k=top_k, seed=seed, mode="spec", gamma=1)
        for seed in range(seeds)
    ]
    made = session.generate([[prompt]] * seeds, params)
    accepted = sum(g.statistics.accepted for g in made)
    assert 0 < accepted < sum(g.statistics.proposed for g in made) == seeds
    logits = pairs.engines(f"target-{acceptance}-{{}}", TARGET).runner("logits")

    def law(ids: tuple[int, ...]) -> dict[int, float]:
        row = last_logits(logits, ids).astype(np.float64) / 0.9
        kept = np.argsort(-row, kind="stable")[:top_k]
        weights = np.exp(row[kept] - row.max())
        return dict(zip(kept.tolist(), (weights / weights.sum()).tolist(), strict=True))

    joint = {(a, b): p * q for a, p in law((prompt,)).items() for b, q in law((prompt, a)).items()}
    counts = Counter(g.token_ids for g in made)
    assert set(counts) <= set(joint)
    often = [pair for pair, p in joint.items() if p * seeds >= 5]
    observed = [*(counts[pair] for pair in often), sum(n for pair, n in counts.items() if pair not in often)]
    wanted = [
        *(joint[pair] * seeds for pair in often),
        seeds * sum(p for pair, p in joint.items() if pair not in often),
    ]
    statistic = sum((o - w) ** 2 / w for o, w in zip(observed, wanted, strict=True) if w > 0)
    assert stats.chi2.sf(statistic, len(often)) > FALSE_ALARM
