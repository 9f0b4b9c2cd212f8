"""The compiled rejection, block and typical verification against the NumPy oracle: all integers, away from rounding."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx.reference import ReferenceEvaluator

from specc.graph.verify import VERIFY_OUTPUTS
from specc.speculation.judged import judged_step
from specc.speculation.modes import DRAFT_SUPPORT
from tests.judged_calls import RULES, Arrays, differing_rows, inputs_of, judged_model, random_call, session_of

SIZES = ((5, 3), (50, 50), (259, 64), (1500, 32))


@pytest.fixture(scope="module")
def sessions() -> dict[tuple[str, int, int], Any]:
    return {
        (mode, *size): session_of(judged_model(rule, size[0], candidates=size[1]))
        for mode, rule in RULES.items()
        for size in SIZES
    }


@pytest.mark.parametrize("mode", RULES)
def test_every_kind_of_row_and_parameter_equals_the_oracle(sessions: Any, mode: str) -> None:
    rng, rule = np.random.default_rng(0), RULES[mode]
    wrong = near = compared = 0
    lengths = []
    for vocab_size, candidates in SIZES:
        for count in (1, 2, 5, 9):
            for _ in range(5):
                logits, inputs = random_call(rng, 8, count, vocab_size)
                found = differing_rows(sessions[mode, vocab_size, candidates], rule, logits, inputs, candidates)
                wrong, near, compared = wrong + found[0], near + found[1], compared + 8
                lengths += judged_step(logits, inputs, candidates, rule).outputs["num_accepted"].tolist()
    assert wrong == 0
    assert near < compared / 100, f"{near} of {compared} rows near rounding"
    assert set(range(7)) <= set(lengths), "chains of every length are accepted"


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1), levels=st.integers(1, 4), count=st.integers(1, 4), mode=st.sampled_from(list(RULES))
)
def test_ties_are_kept_and_picked_by_the_lowest_id(
    sessions: Any, seed: int, levels: int, count: int, mode: str
) -> None:
    """Logits of few levels tie everywhere: at the maximum, at the candidates' end, at top-k and top-p."""
    rng = np.random.default_rng(seed)
    for vocab_size, candidates in SIZES:
        logits, inputs = random_call(rng, 4, count, vocab_size, levels=levels)
        session = sessions[mode, vocab_size, candidates]
        assert differing_rows(session, RULES[mode], logits, inputs, candidates)[0] == 0


@pytest.mark.parametrize("mode", RULES)
def test_a_draft_equal_to_the_target_is_accepted_whole(sessions: Any, mode: str) -> None:
    """p == q: the residual is empty, and nothing is no number (case E3); a cut q is a whole one here."""
    rng, size, candidates, session = np.random.default_rng(1), 5, 3, sessions[mode, 5, 3]
    logits = rng.standard_normal((64, 4, size)).astype(np.float32)
    p = np.exp(logits - logits.max(axis=2, keepdims=True))
    p /= p.sum(axis=2, keepdims=True)
    row = np.concatenate([np.zeros((64, 1), dtype=np.int64), p[:, :3].argmax(axis=2)], axis=1)
    inputs = {
        "input_ids": row,
        "num_tokens": np.full(64, 4),
        "past_lengths": np.arange(64),
        "logit_rows": np.tile(np.arange(4), (64, 1)),
        "num_draft": np.full(64, 3),
        "temperature": np.ones(64, dtype=np.float32),
        "top_k": np.zeros(64, dtype=np.int64),
        "top_p": np.ones(64, dtype=np.float32),
        "min_p": np.zeros(64, dtype=np.float32),
        "seed": rng.integers(0, 1 << 32, 64),
        "q_ids": np.broadcast_to(np.arange(size), (64, 4, size)).copy(),
        "q_probs": p,
    }
    accepted, token = session.run(["num_accepted", "next_token"], {"logits": logits} | inputs_of(RULES[mode], inputs))
    assert (accepted == 3).all()
    assert set(token.tolist()) == set(range(size))
    assert differing_rows(session, RULES[mode], logits, inputs, candidates) == (0, 0)


@pytest.mark.filterwarnings("ignore:overflow encountered")
@pytest.mark.parametrize("scale", [1e-30, 1e4, 1e30])
@pytest.mark.parametrize("mode", RULES)
def test_extreme_logits_stay_in_the_vocabulary(sessions: Any, mode: str, scale: float) -> None:
    rng = np.random.default_rng(2)
    logits, inputs = random_call(rng, 8, 3, 259)
    logits = (rng.uniform(-0.5, 0.5, logits.shape) * scale).astype(np.float32)
    assert differing_rows(sessions[mode, 259, 64], RULES[mode], logits, inputs, 64)[0] == 0


@pytest.mark.parametrize("mode", RULES)
def test_minus_infinity_is_neither_accepted_nor_picked(sessions: Any, mode: str) -> None:
    rng = np.random.default_rng(3)
    for allowed in (1, 2, 70):
        logits, inputs = random_call(rng, 8, 3, 259)
        ids = rng.choice(259, allowed, replace=False)
        masked = np.full_like(logits, -np.inf)
        masked[..., ids] = logits[..., ids]
        feeds = inputs_of(RULES[mode], inputs | {"num_tokens": np.full(8, 4)})
        out = sessions[mode, 259, 64].run(["tokens"], {"logits": masked, **feeds})[0]
        assert set(out[out >= 0].tolist()) <= set(ids.tolist())


@pytest.mark.parametrize("mode", RULES)
def test_no_number_gives_an_id_all_the_same(sessions: Any, mode: str) -> None:
    logits, inputs = random_call(np.random.default_rng(4), 8, 3, 259)
    feeds = inputs_of(RULES[mode], inputs | {"num_tokens": np.full(8, 4)})
    run = sessions[mode, 259, 64].run(["next_token", "num_accepted"], {"logits": np.full_like(logits, np.nan), **feeds})
    assert ((run[0] >= 0) & (run[0] < 259)).all()
    assert (run[1] == 0).all()


@pytest.mark.parametrize("mode", RULES)
def test_a_rows_result_depends_on_that_row_alone(sessions: Any, mode: str) -> None:
    session = sessions[mode, 259, 64]
    logits, inputs = random_call(np.random.default_rng(5), 8, 4, 259)
    feeds = inputs_of(RULES[mode], inputs)
    together = session.run(list(VERIFY_OUTPUTS), {"logits": logits, **feeds})
    for row in range(8):
        part = {name: value[row : row + 1] for name, value in feeds.items()}
        alone = session.run(list(VERIFY_OUTPUTS), {"logits": logits[row : row + 1], **part})
        for name, one, rows in zip(VERIFY_OUTPUTS, alone, together, strict=True):
            np.testing.assert_array_equal(one[0], rows[row], err_msg=name)


def with_other_padding(inputs: Arrays) -> list[Arrays]:
    """Return the inputs with q stated in other, equal ways."""
    ids, probs = inputs["q_ids"], inputs["q_probs"]
    order = np.random.default_rng(6).permutation(ids.shape[2])
    unknown = np.where(ids < 0, 259 + np.arange(ids.shape[2]), ids)  # beyond the vocabulary, with a probability
    widened = (np.pad(ids, ((0, 0), (0, 0), (0, 5)), constant_values=7), np.pad(probs, ((0, 0), (0, 0), (0, 5))))
    pairs = [(ids[..., order], probs[..., order]), (unknown, np.where(ids < 0, 0.5, probs).astype(np.float32)), widened]
    return [inputs | {"q_ids": np.ascontiguousarray(a), "q_probs": np.ascontiguousarray(b)} for a, b in pairs]


@pytest.mark.parametrize("mode", ["rejection", "block"])
def test_the_form_in_which_q_is_stated_does_not_matter(sessions: Any, mode: str) -> None:
    session, rng = sessions[mode, 259, 64], np.random.default_rng(7)
    for _ in range(10):
        logits, inputs = random_call(rng, 8, 4, 259)
        first = session.run(list(VERIFY_OUTPUTS), {"logits": logits, **inputs})
        for other in with_other_padding(inputs):
            for name, one, two in zip(
                VERIFY_OUTPUTS, first, session.run(list(VERIFY_OUTPUTS), {"logits": logits, **other}), strict=True
            ):
                np.testing.assert_array_equal(one, two, err_msg=name)


@pytest.mark.parametrize("mode", ["rejection", "block"])
def test_the_neutral_fill_states_one_hot_drafts(sessions: Any, mode: str) -> None:
    session, rng = sessions[mode, 259, 64], np.random.default_rng(8)
    for _ in range(10):
        logits, inputs = random_call(rng, 8, 4, 259)
        drafts = np.take_along_axis(inputs["input_ids"], inputs["logit_rows"], axis=1)[:, [1, 2, 3, 3], None]
        one_hot = inputs | {"q_ids": drafts, "q_probs": np.ones(drafts.shape, dtype=np.float32)}
        neutral = inputs | {"q_ids": np.full_like(drafts, -1), "q_probs": np.zeros(drafts.shape, dtype=np.float32)}
        results = [session.run(list(VERIFY_OUTPUTS), {"logits": logits, **each}) for each in (one_hot, neutral)]
        for name, one, two in zip(VERIFY_OUTPUTS, *results, strict=True):
            np.testing.assert_array_equal(one, two, err_msg=name)


@pytest.mark.parametrize("lowering", ["canonical", "tensorrt-rtx"])
@pytest.mark.parametrize("mode", RULES)
def test_other_lowerings_equal_the_oracle(mode: str, lowering: str) -> None:
    rng, rule = np.random.default_rng(9), RULES[mode]
    fixed = lowering == "tensorrt-rtx"
    session = session_of(judged_model(rule, 259, lowering=lowering, candidates=64, capacity=64 if fixed else None))
    for _ in range(12):
        logits, inputs = random_call(rng, 8, 5, 259, support=DRAFT_SUPPORT if fixed else 7)
        assert differing_rows(session, rule, logits, inputs, 64)[0] == 0


@pytest.mark.parametrize("mode", RULES)
def test_the_canonical_graph_equals_the_oracle_in_a_second_runtime(mode: str) -> None:
    """ONNX's own reference evaluator runs the graph without any pass, in int64."""
    proto = ir.to_proto(judged_model(RULES[mode], 60, lowering="canonical", candidates=16))
    onnx.checker.check_model(proto, full_check=True)
    evaluator, rng = ReferenceEvaluator(proto), np.random.default_rng(10)
    for _ in range(3):
        logits, inputs = random_call(rng, 4, 3, 60)
        assert differing_rows(evaluator, RULES[mode], logits, inputs, 16)[0] == 0
