"""The first slice on a real model: the built f32 bundle against transformers, and speculation against AR decoding."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest

from specc.bundle.certificate import Certificate
from specc.bundle.read import open_bundle
from specc.bundle.record import record_from_file
from specc.cli.main import status_from_arguments
from specc.runtime import GenerationParams, Session
from specc.runtime.runners import runner_from_engine
from specc.runtime.runners.runner import neutral_inputs
from tests.smollm2 import built_bundle, jsonl, reference_logits

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

# float32 against float32 in another order of summation: the largest difference measured is below a tenth of this.
LOGITS_ATOL = 2e-3

PROMPTS = (
    "The capital of France is",
    "def fibonacci(n):\n    ",
    "Once upon a time, in a small village by the sea,",
    "1, 2, 3, 4, 5,",
    "Water is made of hydrogen and oxygen. Ice is made of",
)
PASSAGE = (
    "The harbour wakes before the town does. Boats leave while it is dark, and their lamps draw short lines on the "
    "water. By eight the market is open, and the first crates of mackerel stand on the wet stones. "
)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return built_bundle(tmp_path_factory.mktemp("bundles"))


@pytest.fixture(scope="module")
def session(bundle):
    # One thread: a second would spin on the core of another worker of the tests.
    with Session.load(bundle, threads=1, verify="full") as loaded:
        yield loaded


def test_greedy_text_equals_transformers(session):
    """By induction: given the same tokens so far, transformers' argmax is the next token, at all of 64 positions."""
    params = GenerationParams(max_new_tokens=64, temperature=0.0, mode="spec", ignore_eos=True)
    for prompt, generation in zip(PROMPTS, session.generate(list(PROMPTS), params), strict=True):
        ids = session.ids_from_text(prompt)
        answer = list(generation.token_ids)
        assert len(answer) == 64
        expected = reference_logits([*ids, *answer])[len(ids) - 1 : -1].argmax(axis=-1)
        assert answer == expected.tolist()


def test_logits_equal_transformers_at_near_and_far_positions(bundle, session):
    ids = (session.ids_from_text(PASSAGE) * 30)[:1001]
    manifest = open_bundle(bundle, "sizes")
    (engine,) = (spec for spec in manifest.engines if spec.variant == "logits")
    wanted = (1, 100, 1000)
    got: dict[int, np.ndarray] = {}
    runner = runner_from_engine(bundle, engine, None)
    runner.reserve(1, len(ids) + manifest.limits.prefill_chunk)
    done = 0
    for stop in (2, 101, 129, 257, 385, 513, 641, 769, 897, 1001):  # chunks that end at the wanted positions
        chunk = np.array([ids[done:stop]], dtype=np.int64)
        given = {
            "input_ids": chunk,
            "num_tokens": np.array([chunk.shape[1]]),
            "past_lengths": np.array([done]),
            "logit_rows": np.array([[chunk.shape[1] - 1]]),
        }
        got[stop - 1] = runner.step(0, neutral_inputs(engine, 1, given))["logits"][0, 0]
        done = stop
    runner.close()
    reference = reference_logits(ids)
    for position in wanted:
        np.testing.assert_allclose(got[position], reference[position], rtol=0, atol=LOGITS_ATOL)


# 24 cells in which every pair of settings occurs: temperature and truncation (8) by gamma and batch (3 of them each).
SAMPLING = [
    {"temperature": t, **cut}
    for t, cut in product((0.0, 0.3, 0.8, 1.2), ({}, {"top_k": 40, "top_p": 0.9, "min_p": 0.05}))
]
GAMMA_AND_BATCH = [(1, 1), (2, 1), (5, 1), (8, 4), (1, 4), (2, 4), (5, 4), (8, 1)]


def gamma_and_batch(index: int, step: int) -> tuple[int, int]:
    return GAMMA_AND_BATCH[(index + step) % len(GAMMA_AND_BATCH)]


def test_every_pair_of_settings_occurs_in_a_cell():
    cells = [
        (*list(SAMPLING[i].items())[:1], len(SAMPLING[i]) > 1, *gamma_and_batch(i, s))
        for i in range(8)
        for s in range(3)
    ]
    assert len(set(cells)) == 24
    for one, other in combinations(range(4), 2):
        pairs = {(cell[one], cell[other]) for cell in cells}
        assert len(pairs) == len({cell[one] for cell in cells}) * len({cell[other] for cell in cells})


@pytest.mark.parametrize("index", range(len(SAMPLING)))
def test_speculative_ids_equal_ar_ids(session, index):
    prompts = [PASSAGE + "Again: " + PASSAGE[: 20 * n] for n in (1, 2, 3, 4)]
    ids = [session.ids_from_text(prompt) for prompt in prompts]
    params = GenerationParams(max_new_tokens=16, seed=100 + index, mode="ar", **SAMPLING[index])
    alone = [session.generate([prompt], params)[0] for prompt in ids]
    for step in range(3):
        gamma, batch = gamma_and_batch(index, step)
        tested = session.generate(ids[:batch], replace(params, mode="spec", gamma=gamma))
        assert [g.token_ids for g in tested] == [g.token_ids for g in alone[:batch]]
        assert [g.text for g in tested] == [g.text for g in alone[:batch]]
        assert any(g.statistics.rounds for g in tested)


def test_the_build_certified_the_bundle(bundle):
    certificate = record_from_file(Certificate, bundle / "certificate.json")
    assert certificate.status == "passed"
    assert {1, 2} <= {cost.batch for cost in certificate.step_costs} <= {1, 2, 4}  # 4 only where time allows
    assert all(check.equal + check.near_ties == check.prompts for check in certificate.parity)
    assert any(check.accepted for check in certificate.parity)


def test_no_output_has_the_vocabulary_in_its_shape(bundle):
    manifest = open_bundle(bundle, "sizes")
    for engine in manifest.engines:
        wide = [t.name for t in engine.outputs if manifest.model.vocab_size in t.shape]
        assert wide == (["logits"] if engine.variant == "logits" else [])


def test_building_again_changes_nothing(bundle, capsys):
    before = {path: path.stat().st_mtime_ns for path in bundle.rglob("*")}
    assert built_bundle(bundle.parent) == bundle
    assert "(unchanged)" in capsys.readouterr().out
    assert {path: path.stat().st_mtime_ns for path in bundle.rglob("*")} == before


def test_run_prints_one_object_a_prompt(bundle, tmp_path, capsys):
    file = jsonl(tmp_path, ["The sky is", {"messages": [{"role": "user", "content": "Say hello."}]}, [504, 3575]])
    assert status_from_arguments(["run", str(bundle), "--prompts", str(file), "--max-tokens", "8", "--json"]) == 0
    objects = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(objects) == 3
    for made in objects:
        assert set(made) >= {"text", "token_ids", "finish_reason", "usage", "speculation", "timing"}
        assert made["usage"]["completion_tokens"] == len(made["token_ids"]) <= 8
        assert set(made["timing"]) == {"prefill_s", "decode_s"}
