"""Sessions over a toy target and a toy draft engine: text, rounds and prices, whatever the batch looks like."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specc.bundle.certificate import StepCost
from specc.bundle.manifest import TensorSpec
from specc.runtime import GenerationParams, Session
from specc.runtime.call_costs import BurstCosts, CallCosts, CallShape, DraftCosts, MeasuredCosts, costs_from_tables
from specc.runtime.draft_law import DraftLaw
from specc.runtime.request import Sampling
from specc.runtime.target_call import IdleRow, Row, inputs_from_rows
from specc.speculation.step_costs import table_from_step_costs
from tests.double_runner import ToyModel, ToyRunner, toy_manifest, toy_session, toy_spec
from tests.draft_runner import toy_draft_session, toy_draft_spec

MODEL = ToyModel(memory=0)
OTHER = ToyModel(memory=2, seed=3)
COLD = Sampling(0.0, 0, 1.0, 0.0, 0)


def table(price):
    return table_from_step_costs([StepCost(b, s, price(b, s)) for b in (1, 2, 4) for s in (1, 2, 4, 8, 64)])


requests = st.lists(
    st.tuples(
        st.lists(st.integers(0, 15), min_size=1, max_size=20),
        st.integers(1, 20),  # new tokens
        st.sampled_from([0.0, 0.7, 1.3]),
        st.sampled_from([0, 3]),  # top_k
        st.sampled_from(["ar", "spec", "auto"]),
    ),
    min_size=1,
    max_size=6,
)


@given(
    asked=requests,
    draft=st.sampled_from([MODEL, OTHER]),
    gamma=st.sampled_from([1, 2, 5, 8]),
    max_batch=st.integers(1, 4),
    chunk=st.sampled_from([1, 3, 64]),
    context=st.sampled_from([12, 96]),
    draft_price=st.sampled_from([None, 0.01, 3.0]),
)
@settings(max_examples=50, deadline=None)
def test_ids_do_not_depend_on_the_draft_model(*, asked, draft, gamma, max_batch, chunk, context, draft_price):
    """Rows of every kind share calls; those that fall back are caught up in chunks when they are tried again."""
    costs = None if draft_price is None else table(lambda b, s: 4 + b * s)
    draft_costs = None if draft_price is None else table(lambda b, s: draft_price * (4 + b * s))
    limits = {"max_batch": max_batch, "prefill_chunk": chunk}
    session, _, runner = toy_draft_session(
        MODEL, draft, context=context, step_costs=costs, draft_step_costs=draft_costs, **limits
    )
    params = [
        GenerationParams(
            max_new_tokens=new, temperature=t, top_k=k, seed=5, mode=mode, gamma=None if mode == "auto" else gamma
        )
        for _, new, t, k, mode in asked
    ]
    made = session.generate([prompt for prompt, *_ in asked], params)
    alone, _ = toy_session(MODEL, toy_manifest(MODEL, max_batch=1))
    for (prompt, new, t, k, mode), got in zip(asked, made, strict=True):
        plain = GenerationParams(max_new_tokens=new, temperature=t, top_k=k, seed=5, mode="ar")
        assert got.token_ids == alone.generate([prompt], plain)[0].token_ids
        if draft is MODEL and mode != "ar":
            assert got.statistics.accepted == got.statistics.proposed
    assert runner.highest_row <= context


def test_all_rows_of_a_step_share_each_draft_call():
    session, _, runner = toy_draft_session(MODEL, MODEL, prefill_chunk=64)
    prompts = [[1, 2], [3, 4, 5], [6] * 9, [7, 8]]
    session.generate(prompts, GenerationParams(max_new_tokens=13, temperature=0.0, mode="spec", gamma=3))
    assert {len(call.rows) for call in runner.calls} == {4}
    # One for the prompts, then gamma a round: 1 + 3 rounds of 4 tokens.
    assert len(runner.calls) == 1 + 3 * 3
    # Every round but the first begins with the two tokens of a full acceptance.
    assert [len(call.rows[0][2]) for call in runner.calls[1:]] == [1, 1, 1, 2, 1, 1, 2, 1, 1]


def test_gamma_20_gives_the_text_of_gamma_1():
    """C12: a long chain changes nothing but the number of rounds."""
    texts = []
    for gamma in (1, 20):
        session, _, _ = toy_draft_session(MODEL, MODEL, max_gamma=20)
        (made,) = session.generate([[1, 2, 3]], GenerationParams(max_new_tokens=64, mode="spec", gamma=gamma, seed=2))
        assert made.statistics.rounds == 63 // (gamma + 1)
        texts.append(made.token_ids)
    assert texts[0] == texts[1]


def test_a_slot_that_is_used_again_holds_nothing_of_the_last_request():
    session, _, _ = toy_draft_session(MODEL, MODEL, max_batch=1)
    params = GenerationParams(max_new_tokens=12, temperature=0.0, mode="spec", gamma=4)
    first, second = session.generate([[1, 2, 3], [1, 2, 9]], params)
    for made in (first, second):
        assert made.statistics.accepted == made.statistics.proposed > 0


def test_a_request_that_does_not_speculate_is_never_drafted_for():
    session, _, runner = toy_draft_session(MODEL, MODEL)
    session.generate([[1, 2, 3]], GenerationParams(max_new_tokens=12, mode="ar"))
    assert runner.calls == []


def test_a_dear_draft_is_given_up_and_a_cheap_one_kept():
    target = table(lambda b, s: 10 + b * s)
    params = GenerationParams(max_new_tokens=60, temperature=0.0, mode="auto")
    for price, fallbacks in ((0.001, 0), (30.0, 1)):
        session, _, _ = toy_draft_session(
            MODEL, MODEL, step_costs=target, draft_step_costs=table(lambda b, s, price=price: price)
        )
        (made,) = session.generate([[1, 2, 3]], params)
        assert bool(made.fallbacks) == bool(fallbacks)


def test_the_cost_of_drafting_is_a_first_call_of_two_tokens_and_single_ones():
    draft = table(lambda b, s: 100 * b + s)
    target = table(lambda b, s: 1.0)
    costs = DraftCosts(costs_from_tables(toy_spec(), toy_draft_spec(), None, MeasuredCosts(target, draft)).draft)
    assert costs.measured
    assert costs.seconds(2, 0) == 0
    assert costs.seconds(2, 3) == pytest.approx(202 + 2 * 201)
    assert DraftCosts(None).seconds(4, 5) == 0


def test_costs_are_nominal_in_one_unit_when_an_engine_was_not_measured():
    measured = MeasuredCosts(target=table(lambda b, s: 1e-3))
    unrolled = replace(toy_draft_spec(), variant="unrolled", steps=4)
    costs = costs_from_tables(toy_spec(), toy_draft_spec(), unrolled, measured)
    assert costs.draft is not None
    assert costs.burst is not None
    assert not costs.target.measured
    assert not costs.draft.measured
    assert costs.draft.seconds(1, 1) == pytest.approx(costs.target.seconds(1, 1))  # both have one layer
    assert costs.burst.calls.seconds(1, 1) == pytest.approx(4 * costs.draft.seconds(1, 1))
    measured = replace(measured, draft=table(lambda b, s: 1e-4))
    assert not costs_from_tables(toy_spec(), toy_draft_spec(), unrolled, measured).target.measured  # a burst is not


def test_drafting_costs_bursts_where_most_of_one_is_wanted():
    single = CallCosts(toy_draft_spec(), table(lambda b, s: 100 * b + s))
    burst = BurstCosts(CallCosts(toy_draft_spec(), table(lambda b, s: 1000 * b + s)), steps=4)
    costs = DraftCosts(single, burst)
    assert [costs.seconds(1, drafts) for drafts in (0, 1, 2)] == pytest.approx([0, 102, 102 + 101])
    assert [costs.seconds(1, drafts) for drafts in (3, 4)] == pytest.approx([1002, 1002])
    assert costs.seconds(1, 6) == pytest.approx(1002 + 2 * 101)
    assert costs.seconds(1, 7) == pytest.approx(1002 + 1001)


def test_drawn_drafts_bring_their_law_and_others_the_neutral_fill():
    law_inputs = (
        TensorSpec("q_ids", "i64", ("B", "R", "Kq"), False, -1),
        TensorSpec("q_probs", "f32", ("B", "R", "Kq"), False, 0.0),
    )
    spec = toy_spec()
    with_law = type(spec)(**{**spec.__dict__, "inputs": (*spec.inputs, *law_inputs)})
    q = DraftLaw(np.array([[4, 7, -1], [9, -1, -1]]), np.array([[0.25, 0.75, 0], [1, 0, 0]], dtype=np.float32))
    rows: list[Row | IdleRow] = [Row((1,), (7, 9), 5, COLD, q), IdleRow(3), Row((2,), (3,), 0, COLD)]
    given = inputs_from_rows(with_law, CallShape(3, 3, 4), rows)
    assert given["q_ids"].tolist() == [
        [[4, 7, -1], [9, -1, -1], [-1, -1, -1], [-1, -1, -1]],
        [[-1] * 3] * 4,
        [[-1] * 3] * 4,
    ]
    assert given["q_probs"][0, :2].tolist() == [[0.25, 0.75, 0], [1, 0, 0]]
    assert not given["q_probs"][1:].any()
    determined = inputs_from_rows(with_law, CallShape(1, 2, 2), [Row((2,), (3,), 0, COLD)])
    assert determined["q_ids"].tolist() == [[[-1], [-1]]]
    assert "q_ids" not in inputs_from_rows(spec, CallShape(3, 3, 4), rows)


def test_a_session_closes_both_engines():
    session, runner, draft_runner = toy_draft_session(MODEL, MODEL)
    session.generate([[1, 2]], GenerationParams(max_new_tokens=4, mode="spec"))
    session.close()
    assert len(runner._cache) == len(draft_runner._caches._cache) == 0
    assert isinstance(runner, ToyRunner)
    assert isinstance(session, Session)
