"""Rejection and block acceptance through whole compiled engines: batches of verify rows of a tiny model, many seeds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from specc.certify.logits import logits_after
from specc.speculation.distribution import processed_distribution
from specc.speculation.noise import Stream, gumbel, noise_bits, round_seed
from tests.judged_calls import RULES
from tests.sampling_law import FALSE_ALARM, law_p
from tests.tiny_engines import tiny_engines, tiny_graph_plan
from tests.tiny_models import TinyLlama

pytestmark = pytest.mark.slow

PROMPT = (3, 11, 7, 7, 2, 19, 5)
PAST = len(PROMPT) - 1
BATCH, SIZE, CANDIDATES = 4, 24, 8
SEEDS = np.random.default_rng(21).integers(0, 1 << 32, 3_000)
# Drafts of the two places; the second does not look at the first. Most of what the model wants is not among them.
SUPPORT = np.array([[4, 9, 17, 2, 20], [6, 9, 1, 21, 0]])
Q = np.array([[0.4, 0.3, 0.15, 0.1, 0.05], [0.5, 0.2, 0.15, 0.1, 0.05]], dtype=np.float32)
SETTINGS = {"plain": {"temperature": 1.0}, "cut": {"temperature": 1.3, "top_k": 6, "top_p": 0.95}}


@dataclass
class Engine:
    """A loaded engine whose slots hold PROMPT, and the laws of the two tokens that follow."""

    runner: object
    logits: object
    limits: object

    def call(self, seeds, row, num_draft, past, **settings):
        """Run one call of four rows."""
        whole = np.full(BATCH, 1)
        inputs = {
            "input_ids": row,
            "num_tokens": num_draft + 1,
            "past_lengths": past,
            "logit_rows": np.minimum(np.arange(row.shape[1]), num_draft[:, None]),
            "num_draft": num_draft,
            "temperature": (whole * settings["temperature"]).astype(np.float32),
            "top_k": whole * settings.get("top_k", 0),
            "top_p": (whole * settings.get("top_p", 1.0)).astype(np.float32),
            "min_p": np.zeros(BATCH, dtype=np.float32),
            "seed": seeds,
            "q_ids": np.full((BATCH, row.shape[1], SUPPORT.shape[1]), -1),
            "q_probs": np.zeros((BATCH, row.shape[1], SUPPORT.shape[1]), dtype=np.float32),
        }
        if row.shape[1] > 1:
            inputs["q_ids"][:, :2], inputs["q_probs"][:, :2] = SUPPORT, Q
        return self.runner.step(0, inputs)

    def law(self, ids, settings):
        """Return the law of the token after some ids, float64 [V]."""
        stated = {"top_k": 0, "top_p": 1.0, "min_p": 0.0} | settings
        logits = logits_after(self.logits, ids, len(ids) - 1, self.limits)[0]
        return processed_distribution(logits, **stated, candidates=CANDIDATES)


@pytest.fixture(scope="module", params=["rejection", "block"])
def engine(request, tmp_path_factory):
    rule = RULES[request.param]
    graph = tiny_graph_plan(acceptance=rule.mode, candidates=CANDIDATES)
    folder = tmp_path_factory.mktemp(rule.mode)
    engines = tiny_engines(folder, TinyLlama(vocab_size=SIZE, num_hidden_layers=1), graph)
    loaded = Engine(engines.runner(), engines.runner("logits"), engines.plan.limits)
    loaded.runner.reserve(BATCH, 32)
    prompt = np.tile(np.array(PROMPT[:-1]), (BATCH, 1))
    zeros, past = np.zeros(BATCH, dtype=np.int64), np.full(BATCH, PAST)
    neutral = dict.fromkeys(("num_draft", "past_lengths", "top_k", "seed"), zeros)
    neutral |= {name: np.zeros(BATCH, dtype=np.float32) for name in ("temperature", "min_p", "top_p")}
    neutral |= {"q_ids": np.full((BATCH, 1, 1), -1), "q_probs": np.zeros((BATCH, 1, 1), dtype=np.float32)}
    loaded.runner.step(0, {"input_ids": prompt, "num_tokens": past, "logit_rows": (past - 1)[:, None]} | neutral)
    return loaded


def drafts_of(seeds):
    """Return two drafts for each seed, drawn from Q with the drafts' own noise."""
    own = round_seed(seeds, np.array(PAST + 1))
    places = [noise_bits(own[:, None], Stream.DRAFT, np.array(PAST + 1 + j), SUPPORT[j]) for j in range(2)]
    picks = [np.argmax(np.log(Q[j]) + gumbel(bits), axis=1) for j, bits in enumerate(places)]
    return np.stack([SUPPORT[j][pick] for j, pick in enumerate(picks)], axis=1)


@pytest.fixture(scope="module")
def texts(engine):
    """Return two tokens for each seed and setting: verify two drafts, then an AR step where one token is missing."""

    def generated(settings):
        found = np.zeros((len(SEEDS), 2), dtype=np.int64)
        drafts, accepted = drafts_of(SEEDS), np.zeros(len(SEEDS), dtype=np.int64)
        for first in range(0, len(SEEDS), BATCH):
            part = slice(first, first + BATCH)
            row = np.concatenate([np.full((BATCH, 1), PROMPT[-1]), drafts[part]], axis=1)
            num_draft = np.array([2, 2, 1, 2])  # ragged: the third row has one draft
            out = engine.call(SEEDS[part], row, num_draft, np.full(BATCH, PAST), **settings)
            more = engine.call(SEEDS[part], out["tokens"][:, :1], num_draft * 0, np.full(BATCH, PAST + 1), **settings)
            found[part, 0], accepted[part] = out["tokens"][:, 0], out["num_accepted"]
            found[part, 1] = np.where(out["num_accepted"] > 0, out["tokens"][:, 1], more["tokens"][:, 0])
        return found, accepted

    return {name: generated(settings) for name, settings in SETTINGS.items()}


@pytest.mark.parametrize("name", SETTINGS)
def test_the_engines_texts_have_the_law_of_ar_decoding(engine, texts, name):
    found, accepted = texts[name]
    first = engine.law(PROMPT, SETTINGS[name])
    joint = np.stack([first[x] * engine.law((*PROMPT, x), SETTINGS[name]) for x in range(SIZE)])
    assert law_p(found[:, 0], first) > FALSE_ALARM
    assert law_p(found[:, 0] * SIZE + found[:, 1], joint.ravel()) > FALSE_ALARM
    assert 0.05 < (accepted > 0).mean() < 0.95


@pytest.mark.parametrize("name", SETTINGS)
def test_a_draft_is_accepted_as_often_as_the_two_laws_agree(engine, texts, name):
    """Rows of one draft: five standard errors around 1 - TV(p, q), in either mode."""
    accepted = texts[name][1][2::BATCH]
    p, q = engine.law(PROMPT, SETTINGS[name]), np.zeros(SIZE)
    q[SUPPORT[0]] = Q[0]
    overlap = np.minimum(p, q).sum()
    assert abs(accepted.mean() - overlap) < 5 * np.sqrt(overlap * (1 - overlap) / len(accepted))


def test_the_same_seed_and_drafts_give_the_same_text(engine):
    seeds, settings = SEEDS[:BATCH], SETTINGS["plain"]
    row = np.concatenate([np.full((BATCH, 1), PROMPT[-1]), drafts_of(seeds)], axis=1)
    calls = [engine.call(seeds, row, np.full(BATCH, 2), np.full(BATCH, PAST), **settings) for _ in range(2)]
    np.testing.assert_array_equal(calls[0]["tokens"], calls[1]["tokens"])
