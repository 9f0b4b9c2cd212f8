"""The sampler's law through a whole compiled engine: batches of AR and verify rows of a tiny model in ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest

from specc.certify.logits import logits_after
from specc.speculation.sampling import SamplingRows
from tests.sampling_law import (
    CANDIDATES,
    FALSE_ALARM,
    SEEDS,
    SETTINGS,
    Sampler,
    batch_rows_p,
    differs_from_oracle,
    law_p,
    picks_of_one_law,
)
from tests.tiny_engines import tiny_engines, tiny_graph_plan
from tests.tiny_models import TinyLlama

PROMPT = (3, 11, 7, 7, 2, 19, 5)
BATCH = 4


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    """Return (logits after PROMPT, float32 [V]; a sampler of them through the engine's batches of four rows)."""
    graph = tiny_graph_plan(candidates=CANDIDATES)
    engines = tiny_engines(tmp_path_factory.mktemp("law"), TinyLlama(vocab_size=24, num_hidden_layers=1), graph)
    logits = logits_after(engines.runner("logits"), PROMPT, len(PROMPT) - 1, engines.plan.limits)[0]
    runner = engines.runner()
    runner.reserve(BATCH, 32)
    batch = np.zeros(BATCH, dtype=np.int64)
    neutral = {"top_k": batch, "seed": batch, "top_p": np.ones(BATCH, dtype=np.float32)}
    neutral |= {"temperature": batch.astype(np.float32), "min_p": batch.astype(np.float32)}
    past = batch + len(PROMPT) - 1
    prefill = {
        "input_ids": np.tile(np.array(PROMPT[:-1]), (BATCH, 1)),
        "num_tokens": past,
        "past_lengths": batch,
        "logit_rows": (past - 1)[:, None],
        "num_draft": batch,
    }
    runner.step(0, prefill | neutral)
    num_draft = np.array([0, 2, 1, 0])

    def four_picks(sampling):
        step = {
            "input_ids": np.tile(np.array([PROMPT[-1], 4, 9]), (BATCH, 1)),
            "num_tokens": num_draft + 1,
            "past_lengths": past,
            "logit_rows": np.minimum(np.arange(3), num_draft[:, None]),
            "num_draft": num_draft,
        }
        return runner.step(0, step | sampling)["tokens"][:, 0]

    return logits, sampler_from_engine(four_picks)


def sampler_from_engine(four_picks) -> Sampler:
    def sampler(logits: np.ndarray, sampling: SamplingRows, positions: np.ndarray) -> np.ndarray:
        assert (positions == len(PROMPT)).all(), "the engine's logits are those of one position"
        names = ("temperature", "top_k", "top_p", "min_p", "seed")
        columns = dict(
            zip(
                names,
                (sampling.temperature, sampling.top_k, sampling.top_p, sampling.min_p, sampling.seed),
                strict=True,
            )
        )
        picks = [
            four_picks({name: column[first : first + BATCH] for name, column in columns.items()})
            for first in range(0, len(logits), BATCH)
        ]
        return np.concatenate(picks)[:, None]

    return sampler


@pytest.mark.parametrize("name", ["greedy", "plain", "all"])
def test_the_engine_has_the_stated_law(engine, name):
    logits, sampler = engine
    setting = SETTINGS[name]
    picks = picks_of_one_law(sampler, logits, setting, SEEDS, first_position=len(PROMPT), rows=1)
    assert law_p(picks, setting.law(logits, CANDIDATES)) > FALSE_ALARM
    if name == "plain":
        assert len(np.unique(picks)) > 3, "the logits are too steep to show a law"


def test_rows_of_a_batch_are_independent(engine):
    logits, sampler = engine
    assert batch_rows_p(sampler, logits, SETTINGS["plain"], SEEDS, CANDIDATES, position=len(PROMPT)) > FALSE_ALARM


@pytest.mark.parametrize("name", ["plain", "top_k", "top_p", "min_p", "all"])
def test_the_engine_picks_as_the_oracle(engine, name):
    logits, sampler = engine
    seeds = SEEDS[:2000]
    positions = np.full((len(seeds), 1), len(PROMPT))
    repeated = np.tile(logits, (len(seeds), 1, 1))
    wrong, near = differs_from_oracle(
        sampler, repeated, SETTINGS[name].rows(seeds), positions, candidates=CANDIDATES, epsilon=1e-4
    )
    assert wrong == 0
    assert near <= 2
