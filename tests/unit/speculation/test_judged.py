from __future__ import annotations

import numpy as np
import pytest

from specc.speculation.distribution import processed_distribution
from specc.speculation.judged import accept_uniforms, judged_step, processed_probabilities, race_winners
from specc.speculation.noise import Stream, noise_bits, round_seed, uniform
from specc.speculation.rules import BLOCK, REJECTION
from specc.speculation.sampling import SamplingRows, sampling_rows
from tests.judged_calls import RULES, random_call
from tests.sampling_law import SETTINGS, mixed_batch

INTEGERS = ("tokens", "num_accepted", "next_token", "next_past", "accepted_rows")


def i64(values):
    return np.array(values, dtype=np.int64)


def call(num_draft, drafts, *, temperature=1.0, seeds=None, **changes):
    """Return the inputs of verify rows with the anchor 0 at position 9."""
    batch, rows = len(drafts), len(drafts[0]) + 1
    rows_of = sampling_rows(np.arange(batch) if seeds is None else seeds, temperature)
    return {
        "input_ids": np.concatenate([np.zeros((batch, 1), dtype=np.int64), i64(drafts)], axis=1),
        "num_tokens": np.full(batch, num_draft + 1),
        "past_lengths": np.full(batch, 9),
        "logit_rows": np.tile(np.minimum(np.arange(rows), num_draft), (batch, 1)),
        "num_draft": np.full(batch, num_draft),
        **vars(rows_of),
        **changes,
    }


def test_probabilities_are_those_of_the_second_writing():
    logits, sampling, _ = mixed_batch()
    ours = processed_probabilities(logits, sampling, 8)
    for b, setting in enumerate(SETTINGS.values()):
        for r in range(logits.shape[1]):
            law = processed_distribution(logits[b, r], **vars(setting), candidates=8)
            np.testing.assert_allclose(ours[b, r], law, rtol=1e-5, atol=1e-7)


def test_the_worked_example():
    """p = (1/2, 1/4, 1/4), q = (1/4, 3/4, 0): draft 1 passes with 1/3, and what is left is (1/4, 0, 1/4)."""
    seeds = np.arange(60_000)
    logits = np.log(np.tile(np.array([0.5, 0.25, 0.25], dtype=np.float32), (len(seeds), 2, 1)))
    inputs = call(1, np.ones((len(seeds), 1)), seeds=seeds)
    inputs |= {"q_ids": np.tile(i64([[[0, 1], [-1, -1]]]), (len(seeds), 1, 1))}
    inputs |= {"q_probs": np.tile(np.array([[[0.25, 0.75], [0, 0]]], dtype=np.float32), (len(seeds), 1, 1))}
    outputs = judged_step(logits, inputs, 3, REJECTION).outputs
    accepted = outputs["num_accepted"] == 1
    assert accepted.mean() == pytest.approx(1 / 3, abs=0.01)
    own = outputs["next_token"][~accepted]
    np.testing.assert_allclose(np.bincount(own, minlength=3) / len(own), [0.5, 0, 0.5], rtol=0, atol=0.02)
    after = outputs["next_token"][accepted]
    np.testing.assert_allclose(np.bincount(after) / len(after), [0.5, 0.25, 0.25], rtol=0, atol=0.02)


def test_a_pass_and_a_token_computed_by_hand():
    logits = np.log(np.array([[[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]]], dtype=np.float32))
    for seed in range(40):
        outputs = judged_step(logits, call(1, [[1]], seeds=i64([seed])), 3, REJECTION).outputs
        u = float(uniform(noise_bits(i64(seed), Stream.ACCEPT, i64(10), i64(0))))
        accepted = int(u < np.exp(logits[0, 0, 1]))  # no q: the draft is one-hot
        assert outputs["num_accepted"].item() == accepted
        weights = np.array([0.1, 0.2, 0.7]) if accepted else np.array([0.5, 0, 0.2])
        bits = noise_bits(i64(seed), Stream.RESIDUAL, i64(10 + accepted), np.arange(3))
        assert outputs["next_token"].item() == np.argmax(weights / -np.log(uniform(bits)))


@pytest.mark.parametrize("mode", RULES)
def test_outputs_of_every_kind_of_row(mode):
    rng = np.random.default_rng(0)
    logits, inputs = random_call(rng, 32, 4, 20)
    step = judged_step(logits, inputs, 8, RULES[mode])
    out = step.outputs
    drafts = np.take_along_axis(inputs["input_ids"], inputs["logit_rows"], axis=1)[:, 1:]
    for b in range(32):
        a, past = int(out["num_accepted"][b]), int(inputs["past_lengths"][b])
        if inputs["num_tokens"][b] == 0:
            assert (a, out["next_token"][b], out["next_past"][b]) == (0, -1, past)
            assert (out["tokens"][b] == -1).all()
            continue
        assert 0 <= a <= inputs["num_draft"][b]
        assert out["tokens"][b].tolist() == [*drafts[b, :a], out["next_token"][b], *[-1] * (3 - a)]
        assert out["next_past"][b] == past + inputs["logit_rows"][b, 0] + a + 1
        kept = past + inputs["logit_rows"][b, : a + 1]
        assert out["accepted_rows"][b].tolist() == [*kept, *[-1] * (3 - a)]
    assert {name: out[name].dtype for name in INTEGERS} == dict.fromkeys(INTEGERS, np.dtype(np.int64))
    assert out["token_logprobs"].shape == (32, 4)


@pytest.mark.parametrize("mode", RULES)
@pytest.mark.parametrize("temperature", [0.0, 1e-6, 9e-6])
def test_greedy_rows_compare_ids_whatever_q_and_the_seed(mode, temperature):
    rng = np.random.default_rng(1)
    logits, inputs = random_call(rng, 16, 4, 20, levels=3)
    picks = logits.argmax(axis=2)
    inputs["temperature"][:] = temperature
    for b, j in np.argwhere(rng.random((16, 3)) < 0.7):
        if j < inputs["num_draft"][b]:
            inputs["input_ids"][b, inputs["logit_rows"][b, j + 1]] = picks[b, j]
    step = judged_step(logits, inputs, 8, RULES[mode], epsilon=1e-3)
    out, drafts = step.outputs, np.take_along_axis(inputs["input_ids"], inputs["logit_rows"], axis=1)[:, 1:]
    assert not step.near.any()
    for b in np.flatnonzero(inputs["num_tokens"] > 0):
        a = 0
        while a < inputs["num_draft"][b] and drafts[b, a] == picks[b, a]:
            a += 1
        assert out["num_accepted"][b] == a
        assert out["next_token"][b] == picks[b, a]
    assert out["num_accepted"].max() > 1


def test_an_ar_step_draws_from_p_alone():
    logits, sampling, positions = mixed_batch()
    inputs = {
        "input_ids": np.zeros((10, 1), dtype=np.int64),
        "num_tokens": np.ones(10, dtype=np.int64),
        "past_lengths": positions[:, 0] - 1,
        "logit_rows": np.zeros((10, 1), dtype=np.int64),
        **vars(sampling),
    }
    tokens = {mode: judged_step(logits[:, :1], inputs, 8, rule).outputs["tokens"] for mode, rule in RULES.items()}
    assert len({rows.tobytes() for rows in tokens.values()}) == 1
    p = processed_probabilities(logits[:, :1], sampling, 8)[:, 0]
    assert (p[np.arange(10), tokens["block"][:, 0]] > 0).all()


def test_uniforms_belong_to_positions_or_to_the_round():
    seed, position = i64([5, 5]), i64([[10, 11, 12], [11, 12, 13]])
    by_position = accept_uniforms(REJECTION, seed, position)
    assert by_position[0, 1] == by_position[1, 0]
    by_round = accept_uniforms(BLOCK, seed, position)
    assert not np.isin(by_round[0], by_round[1]).any()
    assert len(np.unique(by_round)) == 4


def test_seeds_of_rounds_are_distinct_and_not_the_requests_own():
    seeds = round_seed(i64([[3], [4]]), np.arange(50_000))
    assert seeds.min() >= 0
    assert seeds.max() < 1 << 32
    assert [len(np.unique(row)) for row in seeds] == [50_000, 50_000]
    bits = noise_bits(seeds[0, :, None], Stream.DRAFT, np.arange(50_000)[:, None] + 1, np.arange(2))
    assert abs(np.corrcoef(bits[:-1, 0], bits[1:, 0])[0, 1]) < 0.02


def test_a_race_draws_in_proportion_to_the_weights():
    bits = noise_bits(np.arange(40_000)[:, None], Stream.RESIDUAL, i64(7), np.arange(3))
    winners = race_winners(np.tile([0.0, 3.0, 1.0], (40_000, 1)), bits)
    np.testing.assert_allclose(np.bincount(winners, minlength=3) / 40_000, [0, 0.75, 0.25], rtol=0, atol=0.01)
    assert race_winners(np.ones((1, 1)), bits[:1, :1], gap=0.5).tolist() == [0]
    close = race_winners(np.ones((40_000, 2)), bits[:, :2], gap=0.01)
    assert 100 < (close == -2).sum() < 300  # E2/E1 within 1 %: a quarter percent on either side of 1


def test_near_marks_what_rounding_decides():
    seeds = np.arange(4000)
    logits = np.tile(np.log(np.array([0.5, 0.3, 0.2], dtype=np.float32)), (4000, 2, 1))
    inputs = call(1, np.ones((4000, 1)), seeds=seeds)
    shares = [judged_step(logits, inputs, 3, REJECTION, epsilon=e).near.mean() for e in (0.0, 1e-5, 1e-2)]
    assert shares[0] == 0
    assert shares[1] < 0.001
    assert 0.005 < shares[2] < 0.05
    at_threshold = inputs | {"top_p": np.full(4000, 0.8, dtype=np.float32)}  # 0.5 + 0.3: is 0.2 in?
    assert judged_step(logits, at_threshold, 3, REJECTION, epsilon=1e-5).near.mean() > 0.1


def test_rows_of_a_batch_are_judged_alone():
    logits, inputs = random_call(np.random.default_rng(3), 12, 4, 20)
    together = judged_step(logits, inputs, 8, BLOCK).outputs
    for row in range(12):
        part = {name: value[row : row + 1] for name, value in inputs.items()}
        alone = judged_step(logits[row : row + 1], part, 8, BLOCK).outputs
        for name in INTEGERS:
            np.testing.assert_array_equal(alone[name][0], together[name][row], err_msg=name)


def test_the_sampling_inputs_are_those_of_the_rows():
    """Absent optional inputs are neutral: greedy, no drafts."""
    logits = np.random.default_rng(4).normal(0, 1, (2, 2, 9)).astype(np.float32)
    required = {name: call(1, [[1], [2]])[name] for name in ("input_ids", "num_tokens", "past_lengths", "logit_rows")}
    out = judged_step(logits, required, 9, REJECTION).outputs
    assert out["num_accepted"].tolist() == [0, 0]
    assert out["next_token"].tolist() == logits[:, 0].argmax(-1).tolist()
    assert isinstance(sampling_rows(np.zeros(1, dtype=np.int64)), SamplingRows)
