"""Steps whose rows all speculate run in one call; the text is that of plain decoding, whatever shares the batch."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specc.bundle.certificate import StepCost
from specc.runtime import GenerationParams
from specc.runtime.call_costs import CallCosts, DraftCosts, WholeCosts
from specc.speculation.step_costs import table_from_step_costs
from tests.double_runner import ToyModel, toy_manifest, toy_session, toy_spec
from tests.draft_runner import toy_draft_session
from tests.toy_rounds import toy_round_session

MODEL = ToyModel(memory=0)
OTHER = ToyModel(memory=2, seed=3)


def table(price):
    return table_from_step_costs([StepCost(b, s, price(b, s)) for b in (1, 2, 4) for s in (1, 2, 4, 8, 64)])


requests = st.lists(
    st.tuples(
        st.lists(st.integers(0, 15), min_size=1, max_size=20),
        st.integers(1, 20),  # new tokens
        st.sampled_from([0.0, 0.7, 1.3]),
        st.sampled_from(["ar", "spec", "spec", "auto"]),
        st.sampled_from([1, 2, 4, 8]),  # gamma
    ),
    min_size=1,
    max_size=6,
)


@given(
    asked=requests,
    draft=st.sampled_from([MODEL, OTHER]),
    steps=st.sampled_from([1, 2, 4]),
    max_batch=st.integers(1, 4),
    chunk=st.sampled_from([1, 3, 64]),
    context=st.sampled_from([12, 96]),
    price=st.sampled_from([None, 3.0, 30.0]),
)
@settings(max_examples=60, deadline=None)
def test_ids_do_not_depend_on_rounds(*, asked, draft, steps, max_batch, chunk, context, price):
    tables = {}
    if price is not None:
        tables = {"step_costs": table(lambda b, s: 4 + b * s), "draft_step_costs": table(lambda b, s: 1 + b * s)}
        tables["round_step_costs"] = table(lambda b, s: price)
    session, _, _ = toy_round_session(
        MODEL, draft, steps=steps, context=context, max_batch=max_batch, prefill_chunk=chunk, **tables
    )
    params = [
        GenerationParams(max_new_tokens=new, temperature=t, seed=5, mode=mode, gamma=None if mode == "auto" else gamma)
        for _, new, t, mode, gamma in asked
    ]
    made = session.generate([prompt for prompt, *_ in asked], params)
    alone, _ = toy_session(MODEL, toy_manifest(MODEL, max_batch=1))
    for (prompt, new, t, mode, _), got in zip(asked, made, strict=True):
        plain = GenerationParams(max_new_tokens=new, temperature=t, seed=5, mode="ar")
        assert got.token_ids == alone.generate([prompt], plain)[0].token_ids
        if draft is MODEL and mode != "ar":
            assert got.statistics.accepted == got.statistics.proposed


def test_a_steady_batch_takes_one_call_a_round_and_counts_as_apart():
    prompts = [[1, 2], [3, 4, 5], [6] * 9, [7, 8]]
    params = GenerationParams(max_new_tokens=13, temperature=0.0, mode="spec", gamma=3)
    session, rounds, draft = toy_round_session(MODEL, OTHER, steps=3, prefill_chunk=64)
    made = session.generate(prompts, params)
    apart, target, _ = toy_draft_session(MODEL, OTHER, prefill_chunk=64)
    expected = apart.generate(prompts, params)
    assert [one.token_ids for one in made] == [one.token_ids for one in expected]
    assert [one.statistics.proposed for one in made] == [one.statistics.proposed for one in expected]
    assert [one.statistics.accepted for one in made] == [one.statistics.accepted for one in expected]
    # All but the prompts' own step and the ends, where a row has no room for a draft.
    assert rounds.calls >= len(target.calls) - 3
    assert len(draft.calls) >= 3 * rounds.calls


def test_rows_that_do_not_fit_into_a_round_take_the_engines_apart():
    prompts, params = [[1, 2], [3, 4]], {"max_new_tokens": 12, "temperature": 0.0}
    for settings_of_rows in (
        [GenerationParams(mode="ar", **params), GenerationParams(mode="spec", gamma=2, **params)],
        [GenerationParams(mode="spec", gamma=4, **params)] * 2,  # more than the engine's steps
    ):
        session, rounds, _ = toy_round_session(MODEL, MODEL, steps=3)
        session.generate(prompts, settings_of_rows)
        assert rounds.calls == 0


def test_a_round_that_costs_more_than_its_calls_is_not_taken():
    costs = {"step_costs": table(lambda b, s: 10), "draft_step_costs": table(lambda b, s: 1)}
    params = GenerationParams(max_new_tokens=12, temperature=0.0, mode="spec", gamma=3)
    for price, taken in ((12.0, True), (14.0, False)):
        session, rounds, _ = toy_round_session(
            MODEL, MODEL, steps=3, round_step_costs=table(lambda b, s, price=price: price), **costs
        )
        session.generate([[1, 2]], params)
        assert (rounds.calls > 0) == taken


def test_drafting_is_priced_by_the_cheaper_way():
    target, draft = (CallCosts(toy_spec(), table(lambda b, s, x=x: x)) for x in (10.0, 2.0))
    whole = WholeCosts(CallCosts(toy_spec(), table(lambda b, s: 13.0)), target, 4)
    costs = DraftCosts(draft, None, whole)
    assert [costs.seconds(1, drafts) for drafts in (0, 1, 2, 4, 5)] == pytest.approx([0.0, 2.0, 3.0, 3.0, 10.0])
    assert [costs.whole_pays(1, drafts) for drafts in (1, 2)] == [False, True]
    assert DraftCosts(draft).whole_pays(1, 1)
