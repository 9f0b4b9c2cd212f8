"""The compiled draft graph: its picks are the target's for the same weights, and drawn drafts follow the stated q."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from specc.runtime.runners.onnxruntime import OnnxRuntimeRunner
from specc.runtime.runners.runner import Arrays, neutral_inputs
from specc.speculation.noise import Stream, gumbel, noise_bits
from specc.speculation.sampling import kept_candidates, sampling_rows, scaled_logits, target_picks
from tests.tiny_engines import EMITTED, tiny_engines, tiny_graph_plan

SUPPORT = 64
# float32 softmax of 64 weights against the same in float64.
Q_ATOL = 1e-6
FALSE_ALARM = 1e-4
SETTINGS: tuple[dict[str, Any], ...] = (
    {"temperature": 0.0},
    {"temperature": 0.4},
    {"temperature": 1.2},
    {"temperature": 0.9, "top_k": 12},
    {"temperature": 1.1, "top_k": 30, "top_p": 0.7, "min_p": 0.05},
)


@pytest.fixture(scope="module")
def target(tmp_path_factory) -> OnnxRuntimeRunner:
    return tiny_engines(tmp_path_factory.mktemp("target")).runner("logits")


def draft_runner(tmp_path_factory, acceptance: str, support: int = SUPPORT) -> OnnxRuntimeRunner:
    graph = tiny_graph_plan(role="draft", variants=("main",), max_logit_rows=1, acceptance=acceptance, support=support)
    return tiny_engines(tmp_path_factory.mktemp(acceptance), graph=graph).runner()


@pytest.fixture(scope="module")
def coupled(tmp_path_factory) -> OnnxRuntimeRunner:
    return draft_runner(tmp_path_factory, "coupled")


@pytest.fixture(scope="module")
def drawing(tmp_path_factory) -> OnnxRuntimeRunner:
    return draft_runner(tmp_path_factory, "rejection")


@pytest.fixture(scope="module")
def drawing_all(tmp_path_factory) -> OnnxRuntimeRunner:
    return draft_runner(tmp_path_factory, "rejection", EMITTED)


def stepped(runner: OnnxRuntimeRunner, ids: np.ndarray, num_tokens: np.ndarray, past: int, **sampling: Any) -> Arrays:
    """Run rows that share settings; sampling values are scalars or [B]."""
    batch, width = ids.shape
    given: Arrays = {
        "input_ids": ids,
        "num_tokens": num_tokens,
        "past_lengths": np.full(batch, past, dtype=np.int64),
        "logit_rows": np.maximum(num_tokens - 1, 0)[:, None],
    }
    for name, value in sampling.items():
        dtype = np.int64 if name in ("top_k", "seed") else np.float32
        given[name] = np.broadcast_to(np.asarray(value, dtype=dtype), (batch,)).copy()
    runner.reserve(batch, past + width)
    return runner.step(0, neutral_inputs(runner.spec, batch, given))


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_coupled_drafts_are_the_targets_own_picks_for_the_same_weights(target, coupled, settings):
    rng = np.random.default_rng(1)
    past = 0
    for width in (7, 2, 1, 1, 2):  # a chunk, a catch-up, single steps
        ids = rng.integers(0, EMITTED, (3, width))
        num_tokens = np.array([width, max(width - 1, 1), width])
        inputs = {"ids": ids, "num_tokens": num_tokens, "past": past, **settings, "seed": [3, 4, 5]}
        assert stepped(coupled, **inputs)["next_token"].tolist() == stepped(target, **inputs)["next_token"].tolist()
        past += int(num_tokens.min())


def test_an_idle_row_drafts_nothing(coupled):
    out = stepped(coupled, np.array([[5], [6]]), np.array([0, 1]), 0, temperature=0.7)
    assert out["next_token"][0] == -1
    assert out["next_token"][1] >= 0


def expected_q(logits: np.ndarray, settings: dict[str, Any], support: int = SUPPORT) -> np.ndarray:
    """Return q [V] of a draft's logits [V], by sorting and without the engine's formulas, float64."""
    temperature = settings["temperature"]
    if temperature == 0:
        return np.eye(len(logits))[logits.argmax()]
    largest = np.argsort(-logits, kind="stable")[:support]
    weights = np.zeros(len(logits))
    weights[largest] = np.exp((logits[largest].astype(np.float64) - logits.max()) / temperature)
    rows = sampling_rows(np.array([0]), **settings)
    if any(name in settings for name in ("top_k", "top_p", "min_p")):
        weights[~kept_candidates(logits[None, None], rows, SUPPORT)[0, 0]] = 0
    return weights / weights.sum()


@pytest.mark.parametrize("support", [SUPPORT, EMITTED])
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_q_is_the_truncated_law_and_drafts_follow_it(target, drawing, drawing_all, settings, support):
    drawing = drawing if support == SUPPORT else drawing_all
    rows = 4000
    ids = np.full((rows, 1), 65)
    seeds = np.arange(rows)
    logits = stepped(target, ids[:1], np.array([1]), 0)["logits"][0, 0]
    out = stepped(drawing, ids, np.ones(rows, dtype=np.int64), 0, **settings, seed=seeds)
    q = expected_q(logits, settings, support)
    stated = np.zeros(EMITTED)
    kept = out["q_ids"][0] >= 0
    stated[out["q_ids"][0][kept]] = out["q_probs"][0][kept]
    np.testing.assert_allclose(stated, q, rtol=0, atol=Q_ATOL)
    assert not out["q_probs"][0][~kept].any()
    assert (out["q_ids"] == out["q_ids"][0]).all()
    counts = np.bincount(out["next_token"], minlength=EMITTED)
    assert counts[q == 0].sum() == 0
    if settings["temperature"] > 0:
        often = q * rows >= 5
        observed = np.append(counts[often], counts[~often].sum())
        wanted = np.append(q[often], q[~often].sum()) * rows
        wanted, observed = wanted[wanted > 0], observed[wanted > 0]
        assert stats.chisquare(observed, wanted * observed.sum() / wanted.sum()).pvalue > FALSE_ALARM


def test_rows_of_one_call_keep_what_their_own_settings_keep(target, drawing_all):
    """A truncated, a greedy and an untruncated row together: the vocabulary's law is asked for by one of them only."""
    ids, ones = np.full((3, 1), 65), np.ones(3, dtype=np.int64)
    logits = stepped(target, ids[:1], ones[:1], 0)["logits"][0, 0]
    out = stepped(drawing_all, ids, ones, 0, temperature=[0.9, 0.0, 2.0], top_k=[12, 0, 0], seed=[1, 2, 3])
    rows = ({"temperature": 0.9, "top_k": 12}, {"temperature": 0.0}, {"temperature": 2.0})
    for row, settings in enumerate(rows):
        kept = out["q_ids"][row] >= 0
        stated = np.zeros(EMITTED)
        stated[out["q_ids"][row][kept]] = out["q_probs"][row][kept]
        np.testing.assert_allclose(stated, expected_q(logits, settings, EMITTED), rtol=0, atol=Q_ATOL)


def test_drawn_drafts_use_a_stream_of_their_own(target, drawing):
    """Noise of the target's stream would couple what rejection needs independent: most drafts would be its picks."""
    rows = 500
    ids, seeds = np.full((rows, 1), 65), np.arange(rows)
    settings = {"temperature": 1.2, "top_k": 12}
    logits = stepped(target, ids[:1], np.array([1]), 0)["logits"][0, 0]
    drafts = stepped(drawing, ids, np.ones(rows, dtype=np.int64), 0, **settings, seed=seeds)["next_token"]
    sampling = sampling_rows(seeds, **settings)
    same = np.broadcast_to(logits, (rows, 1, EMITTED))
    picks = target_picks(same, sampling, np.ones((rows, 1), dtype=np.int64), SUPPORT).ids[:, 0]
    noise = gumbel(noise_bits(seeds[:, None], Stream.DRAFT, np.ones((rows, 1), dtype=np.int64), np.arange(EMITTED)))
    scores = np.where(
        kept_candidates(same, sampling, SUPPORT)[:, 0], scaled_logits(same, sampling.temperature)[:, 0] + noise, -np.inf
    )
    assert (drafts == scores.argmax(axis=-1)).mean() > 0.99
    q = expected_q(logits, settings)
    chance = float((q * q).sum())
    assert (drafts == picks).mean() < chance + 0.1
