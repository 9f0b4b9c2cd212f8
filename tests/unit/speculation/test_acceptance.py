from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specc.speculation.acceptance import accept_chain, token_logprobs, verify_step
from specc.speculation.sampling import sampling_rows, target_picks


def i64(values):
    return np.array(values, dtype=np.int64)


def test_the_worked_example_of_each_kind_of_row():
    """In one call: full acceptance, a rejection in the middle, an AR step, the end of a prefill chunk, an idle row."""
    accepted = accept_chain(
        picks=i64([[7, 8, 9], [7, 8, 9], [4, 4, 4], [6, 6, 6], [1, 2, 3]]),
        drafts=i64([[7, 8], [7, 5], [4, 4], [6, 6], [1, 2]]),
        num_draft=i64([2, 2, 0, 0, 0]),
        num_tokens=i64([3, 3, 1, 5, 0]),
        past_lengths=i64([10, 20, 30, 0, 40]),
        logit_rows=i64([[0, 1, 2], [0, 1, 2], [0, 0, 0], [4, 4, 4], [0, 0, 0]]),
    )
    assert accepted.tokens.tolist() == [[7, 8, 9], [7, 8, -1], [4, -1, -1], [6, -1, -1], [-1, -1, -1]]
    assert accepted.num_accepted.tolist() == [2, 1, 0, 0, 0]
    assert accepted.next_token.tolist() == [9, 8, 4, 6, -1]
    assert accepted.next_past.tolist() == [13, 22, 31, 5, 40]
    assert accepted.accepted_rows.tolist() == [[10, 11, 12], [20, 21, -1], [30, -1, -1], [4, -1, -1], [-1, -1, -1]]


def test_a_match_after_a_rejection_is_not_accepted():
    accepted = accept_chain(
        picks=i64([[1, 2, 3, 4]]),
        drafts=i64([[1, 9, 3]]),
        num_draft=i64([3]),
        num_tokens=i64([4]),
        past_lengths=i64([0]),
        logit_rows=i64([[0, 1, 2, 3]]),
    )
    assert (accepted.num_accepted.tolist(), accepted.tokens.tolist()) == ([1], [[1, 2, -1, -1]])


@given(st.data())
def test_every_row_follows_the_definition(data):
    rows = data.draw(st.integers(1, 5))
    num_draft = data.draw(st.integers(0, rows - 1))
    past, anchor = data.draw(st.integers(0, 50)), data.draw(st.integers(0, 3))
    picks = data.draw(st.lists(st.integers(0, 2), min_size=rows, max_size=rows))
    drafts = data.draw(st.lists(st.integers(0, 2), min_size=rows - 1, max_size=rows - 1))
    logit_rows = [anchor + min(j, num_draft) for j in range(rows)]
    got = accept_chain(
        picks=i64([picks]),
        drafts=i64([drafts]).reshape(1, rows - 1),
        num_draft=i64([num_draft]),
        num_tokens=i64([anchor + 1 + num_draft]),
        past_lengths=i64([past]),
        logit_rows=i64([logit_rows]),
    )
    a = 0
    while a < num_draft and drafts[a] == picks[a]:
        a += 1
    assert got.num_accepted.item() == a
    assert got.tokens[0].tolist() == [*drafts[:a], picks[a], *[-1] * (rows - a - 1)]
    assert got.next_token.item() == picks[a]
    assert got.next_past.item() == past + anchor + a + 1
    assert got.accepted_rows[0].tolist() == [past + anchor + j for j in range(a + 1)] + [-1] * (rows - a - 1)


def verify_inputs():
    """Three rows: a prefill chunk of 3, a verify of 1 + 2, an idle row; S = 4 with padding on the right."""
    return {
        "input_ids": i64([[5, 6, 7, 0], [8, 1, 2, 0], [0, 0, 0, 0]]),
        "num_tokens": i64([3, 3, 0]),
        "past_lengths": i64([0, 11, 4]),
        "logit_rows": i64([[2, 2, 2], [0, 1, 2], [0, 0, 0]]),
        "num_draft": i64([0, 2, 0]),
        "temperature": np.array([0.8, 0.8, 0], dtype=np.float32),
        "seed": i64([3, 4, 0]),
    }


def test_verify_step_emits_the_picks_of_ar_steps_at_the_same_positions():
    logits = np.random.default_rng(0).normal(0, 1, (3, 3, 10)).astype(np.float32)
    step = verify_step(logits, verify_inputs(), candidates=10)
    assert step.positions.tolist() == [[3, 3, 3], [12, 13, 14], [5, 5, 5]]
    for j in range(3):
        ar = target_picks(logits[1:2, j : j + 1], sampling_rows(i64([4]), 0.8), i64([[12 + j]]), 10)
        assert step.picks.ids[1, j] == ar.ids.item()
    assert step.outputs["next_past"].tolist()[::2] == [3, 4]


def test_drafts_equal_to_the_picks_are_all_accepted():
    logits = np.random.default_rng(0).normal(0, 1, (3, 3, 10)).astype(np.float32)
    inputs = verify_inputs()
    picks = verify_step(logits, inputs, candidates=10).picks.ids
    inputs["input_ids"][1, 1:3] = picks[1, :2]
    outputs = verify_step(logits, inputs, candidates=10).outputs
    assert outputs["num_accepted"].tolist() == [0, 2, 0]
    assert outputs["tokens"].tolist() == [[picks[0, 0], -1, -1], picks[1].tolist(), [-1, -1, -1]]
    assert outputs["next_past"].tolist() == [3, 14, 4]


def test_absent_optional_inputs_are_neutral():
    required = {name: verify_inputs()[name] for name in ("input_ids", "num_tokens", "past_lengths", "logit_rows")}
    logits = np.random.default_rng(0).normal(0, 1, (3, 3, 10)).astype(np.float32)
    outputs = verify_step(logits, required, candidates=10).outputs
    assert outputs["num_accepted"].tolist() == [0, 0, 0]
    assert outputs["next_token"].tolist() == [*logits[:2, 0].argmax(-1).tolist(), -1]


@pytest.mark.parametrize(
    "name", ["tokens", "num_accepted", "next_token", "next_past", "accepted_rows", "token_logprobs"]
)
def test_outputs_have_the_dtypes_of_the_abi(name):
    logits = np.zeros((3, 3, 10), dtype=np.float32)
    output = verify_step(logits, verify_inputs(), candidates=10).outputs[name]
    assert output.dtype == (np.float32 if name == "token_logprobs" else np.int64)
    assert output.shape == ((3, 3) if name in {"tokens", "accepted_rows", "token_logprobs"} else (3,))


def test_token_logprobs_are_of_the_unprocessed_softmax():
    logits = np.array([[[0.0, 1.0, 3e4], [0.0, np.log(3.0), -np.inf]]], dtype=np.float32)
    np.testing.assert_allclose(token_logprobs(logits, i64([[2, 1]])), [[0.0, np.log(0.75)]], rtol=1e-6, atol=1e-7)
    assert token_logprobs(logits, i64([[-1, -1]])).tolist() == [[0.0, 0.0]]
