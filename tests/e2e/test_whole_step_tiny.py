"""Whole rounds in one engine on tiny random models: the ids of the engines apart, in every mode and every batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from specc.runtime import GenerationParams, Session
from specc.runtime.runners.runner import Arrays
from specc.speculation.modes import MODES
from tests.tiny_engines import EMITTED
from tests.whole_steps import CAPACITY, SLOTS, STEPS, WholeEngines, whole_engines

SETTINGS: tuple[dict[str, Any], ...] = (
    {"temperature": 0.0},
    {"temperature": 1.2},
    {"temperature": 0.8, "top_k": 20, "top_p": 0.9, "min_p": 0.02},
)


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory):
    made: dict[tuple[str, str], WholeEngines] = {}

    def engines_of(mode: str, draft: str = "near") -> WholeEngines:
        if (mode, draft) not in made:
            made[mode, draft] = whole_engines(tmp_path_factory.mktemp(mode), mode, draft)
        return made[mode, draft]

    return engines_of


def requests(acceptance: str, **changes: Any) -> tuple[list[list[int]], list[GenerationParams]]:
    """Return prompts of 1 to 40 tokens, more than a session has slots, and their settings."""
    rng = np.random.default_rng(11)
    settings = SETTINGS if MODES[acceptance].samples else SETTINGS[:1]
    prompts, params = [], []
    for index in range(6):
        prompts.append(rng.integers(0, 256, 1 + index * 7 % 40).tolist())
        chosen = settings[index % len(settings)] | {"gamma": 1 + index % STEPS, "mode": "spec"} | changes
        params.append(GenerationParams(max_new_tokens=12 + 5 * index, seed=index, **chosen))
    return prompts, params


def answers(made: WholeEngines, acceptance: str, *, whole: bool, **changes: Any) -> tuple[list[Any], int]:
    """Return what a session generates, and how many rounds were one call."""
    target, draft, burst, round_ = made.runners()
    calls = 0

    class Counted:
        spec, reserve, close = round_.spec, round_.reserve, round_.close

        def step(self, first_slot: int, inputs: Arrays) -> Arrays:
            nonlocal calls
            calls += 1
            return round_.step(first_slot, inputs)

    runners: dict[str, Any] = {"round_runner": Counted()} if whole else {"burst_runner": burst}
    with Session(made.manifest(acceptance), target, draft_runner=draft, **runners) as session:
        return session.generate(*requests(acceptance, **changes)), calls


@pytest.mark.slow
@pytest.mark.parametrize("acceptance", MODES)
def test_the_ids_are_those_of_the_engines_apart(engines, acceptance):
    apart, _ = answers(engines(acceptance), acceptance, whole=False)
    together, calls = answers(engines(acceptance), acceptance, whole=True)
    assert calls >= 10
    assert [a.token_ids for a in together] == [a.token_ids for a in apart]
    assert [a.statistics for a in together] == [a.statistics for a in apart]
    assert any(a.statistics.accepted for a in apart)


@pytest.mark.slow
@pytest.mark.parametrize("acceptance", ["greedy", "coupled"])
def test_the_text_is_that_of_plain_decoding(engines, acceptance):
    plain, calls = answers(engines(acceptance), acceptance, whole=True, mode="ar", gamma=None)
    assert calls == 0
    assert [a.token_ids for a in answers(engines(acceptance), acceptance, whole=True)[0]] == [
        a.token_ids for a in plain
    ]


def round_call(rng: np.random.Generator, past: np.ndarray, draft_past: np.ndarray, fed: np.ndarray) -> Arrays:
    """Return a call of rows that feed one or two tokens, and idle ones."""
    rows = len(past)
    return {
        "input_ids": rng.integers(0, EMITTED, (rows, 2)),
        "num_tokens": fed,
        "past_lengths": past,
        "draft_past_lengths": draft_past,
        "num_draft": np.where(fed > 0, rng.integers(0, STEPS + 1, rows), 0),
        "temperature": np.full(rows, 0.9, dtype=np.float32),
        "top_k": np.zeros(rows, dtype=np.int64),
        "top_p": np.ones(rows, dtype=np.float32),
        "min_p": np.zeros(rows, dtype=np.float32),
        "seed": np.arange(rows),
        "draft_seed": np.arange(rows),
    }


@pytest.mark.slow
@pytest.mark.parametrize("acceptance", ["coupled", "rejection"])
def test_a_call_is_the_calls_that_it_stands_for(engines, acceptance):
    """Outputs, drafts and both sets of caches, of ragged rows, idle ones among them, and rows that want no draft."""
    made = engines(acceptance, "smaller")
    together, apart = made.runners(), made.runners()
    rng, sampling = np.random.default_rng(2), ("temperature", "top_k", "top_p", "min_p", "seed")
    past = np.array([5, 9, 0])
    for runners in (together, apart):
        for runner in runners[:2]:
            runner.reserve(SLOTS, CAPACITY)
            for array in runner.caches.arrays.values():
                array[...] = np.random.default_rng(3).standard_normal(array.shape)
    for fed in (np.array([1, 2, 0]), np.array([2, 1, 1]), np.array([1, 0, 2])):
        call = round_call(rng, past, np.maximum(past + 1 - fed, 0), fed)
        got = together[3].step(0, dict(call))
        burst = {name: call[name] for name in ("input_ids", "num_tokens", *sampling)}
        drafted = apart[2].step(0, burst | {"past_lengths": call["draft_past_lengths"]})
        np.testing.assert_array_equal(got["drafts"], drafted["drafts"])
        anchor = call["input_ids"][np.arange(SLOTS), np.maximum(fed - 1, 0)]
        row = {name: call[name] for name in ("past_lengths", "num_draft", *sampling)}
        row |= {
            "input_ids": np.concatenate([anchor[:, None], np.maximum(drafted["drafts"], 0)], axis=1),
            "num_tokens": np.where(fed > 0, call["num_draft"] + 1, 0),
            "logit_rows": np.minimum(np.arange(STEPS + 1), call["num_draft"][:, None]),
        }
        if "q_ids" in drafted:
            for name, fill in (("q_ids", -1), ("q_probs", 0.0)):
                row[name] = np.pad(drafted[name], ((0, 0), (0, 1), (0, 0)), constant_values=fill)
        expected = apart[0].step(0, row)
        for name, array in expected.items():
            np.testing.assert_array_equal(got[name], array, err_msg=name)
        for runner, twin in zip(together[:2], apart[:2], strict=True):
            for name, array in runner.caches.arrays.items():
                np.testing.assert_allclose(array, twin.caches.arrays[name], rtol=0, atol=2e-5, err_msg=name)
        past = expected["next_past"]


def test_a_call_beyond_a_capacity_or_slot_is_our_bug(engines):
    from specc.errors import SpeccBug

    target, draft, _, whole = engines("coupled").runners()
    rng, one = np.random.default_rng(0), np.array([1])
    with pytest.raises(SpeccBug, match="slots 0 to 0 asked, 0 reserved"):
        whole.step(0, round_call(rng, one, one, one))
    whole.reserve(1, 64)
    assert (target.caches.capacity, draft.caches.capacity) == (64, 64)
    with pytest.raises(SpeccBug, match="would write 65 cache rows into a capacity of 64"):
        whole.step(0, round_call(rng, np.array([64 - STEPS]), one, one))
    with pytest.raises(SpeccBug, match="would write 65 cache rows into a capacity of 64"):
        whole.step(0, round_call(rng, one, np.array([64 - STEPS]), one))
    with pytest.raises(SpeccBug, match="input draft_seed is nothing"):
        whole.step(0, {k: v for k, v in round_call(rng, one, one, one).items() if k != "draft_seed"})
