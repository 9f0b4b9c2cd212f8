"""The scheduler over the toy engine, whose assertions hold every call against the ABI."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specc.bundle.certificate import StepCost
from specc.bundle.drafts import NgramDraftSpec
from specc.bundle.manifest import ProfileSpec
from specc.errors import SpeccBug
from specc.runtime import Generation, GenerationParams
from specc.speculation.step_costs import StepCostTable, table_from_step_costs
from tests.double_runner import ToyModel, naive_answer, toy_manifest, toy_session, toy_spec
from tests.oracle_drafters import OracleDrafter, rounds_from_corruption

GREEDY = GenerationParams(temperature=0.0)


def prompts(model: ToyModel, count: int) -> st.SearchStrategy[list[list[int]]]:
    ids = st.lists(st.integers(0, model.vocab_size - 1), min_size=1, max_size=30)
    return st.lists(ids, min_size=1, max_size=count, unique_by=tuple)


sampling = st.one_of(
    st.just(GREEDY),
    st.builds(
        GenerationParams,
        temperature=st.sampled_from([0.3, 0.8, 1.2]),
        top_k=st.sampled_from([0, 3]),
        top_p=st.sampled_from([1.0, 0.8]),
        min_p=st.sampled_from([0.0, 0.1]),
        seed=st.integers(0, 2**32 - 1),
    ),
)


def ids(generations: list[Generation]) -> list[tuple[int, ...]]:
    return [generation.token_ids for generation in generations]


def priced(fixed: float | None) -> StepCostTable | None:
    """Step costs of a fixed part and 1 a token, the padded ones included."""
    grid = [StepCost(b, s, fixed + b * s) for b in (1, 2, 4) for s in (1, 2, 4, 8, 64)] if fixed is not None else []
    return table_from_step_costs(grid)


@given(
    st.data(),
    st.sampled_from([1, 2, 0]),
    sampling,
    st.integers(1, 8),
    st.sampled_from(["oracle", "corrupted", "ngram"]),
)
@settings(max_examples=150, deadline=None)
def test_ids_do_not_depend_on_drafts_batch_chunks_or_grouping(data, memory, params, gamma, kind):
    chunk = data.draw(st.sampled_from([1, 2, 5, 64]), label="prefill chunk")
    max_batch = data.draw(st.integers(1, 5), label="max_batch")
    fixed = data.draw(st.sampled_from([None, 0.1, 3.0, 30.0]), label="fixed cost of a call")
    model = ToyModel(memory=memory)
    batch = data.draw(prompts(model, 5))
    size = len(batch)
    lengths = data.draw(st.lists(st.integers(1, 40), min_size=size, max_size=size))
    modes = data.draw(st.lists(st.sampled_from(["spec", "spec", "auto", "ar"]), min_size=size, max_size=size))
    stops = tuple(data.draw(st.sets(st.integers(0, 15), max_size=1)))
    manifest = toy_manifest(model, prefill_chunk=chunk, max_batch=max_batch, stop_ids=stops)
    each = [replace(params, max_new_tokens=length) for length in lengths]

    ar = []
    for prompt, own in zip(batch, each, strict=True):  # alone, in one chunk
        alone = toy_manifest(model, prefill_chunk=64, max_batch=1, stop_ids=stops)
        ar += toy_session(model, alone)[0].generate([prompt], replace(own, mode="ar"))

    answers = {tuple(p): g.token_ids for p, g in zip(batch, ar, strict=True)}
    corrupt = {"oracle": 0, "corrupted": 3}
    new_drafter = (lambda: OracleDrafter(answers, 16, corrupt[kind])) if kind in corrupt else None
    session, _ = toy_session(model, manifest, new_drafter, step_costs=priced(fixed))
    mixed = [replace(own, mode=mode, gamma=gamma) for own, mode in zip(each, modes, strict=True)]
    got = session.generate(batch, mixed)

    assert ids(got) == ids(ar)
    assert [(g.finish_reason, g.stopped_by) for g in got] == [(g.finish_reason, g.stopped_by) for g in ar]
    for generation, length in zip(got, lengths, strict=True):
        assert len(generation.token_ids) == length or generation.finish_reason != "length"
    assert session.scheduler.idle


def test_greedy_ar_equals_a_loop_without_the_runtime():
    for memory in (1, 2, 0):
        model = ToyModel(memory=memory, seed=5)
        session, _ = toy_session(model)
        params = GenerationParams(max_new_tokens=30, mode="ar")
        for prompt in ([1], [3, 1, 2], list(range(16)) * 2):
            assert session.generate(prompt, params)[0].token_ids == tuple(naive_answer(model, tuple(prompt), 30))


@pytest.mark.parametrize("gamma", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("corrupt", [0, 2, 3, 7])
def test_acceptance_of_a_known_oracle_is_counted_exactly(gamma, corrupt):
    model, length = ToyModel(memory=0), 41
    answers = {(1, 2, 3): naive_answer(model, (1, 2, 3), length)}
    session, runner = toy_session(model, None, lambda: OracleDrafter(answers, 16, corrupt))
    (generation,) = session.generate([[1, 2, 3]], GenerationParams(max_new_tokens=length, mode="spec", gamma=gamma))
    rounds = rounds_from_corruption(length, gamma, corrupt)
    got = generation.statistics
    assert (got.rounds, got.proposed, got.accepted) == (
        len(rounds),
        sum(p for p, _ in rounds),
        sum(a for _, a in rounds),
    )
    width = max(p for p, _ in rounds)
    assert got.proposed_per_position == tuple(sum(p > k for p, _ in rounds) for k in range(width))
    assert got.evaluated_per_position == tuple(sum(p > k and a >= k for p, a in rounds) for k in range(width))
    assert got.accepted_per_position == tuple(sum(a > k for _, a in rounds) for k in range(width))
    assert got.no_proposal == 0
    # every token comes from one call: rounds + ar_steps calls, and each accepted draft saves one
    assert got.rounds + got.ar_steps + got.accepted == length
    assert len(runner.calls) == got.rounds + got.ar_steps
    if corrupt == 0:
        assert set(got.conditional_acceptance) == {1.0}
        full = [a + 1 for p, a in rounds if p == gamma]
        assert full
        assert set(full) == {gamma + 1}


def test_all_rows_advance_in_one_call_a_step_each_at_its_own_pace():
    model = ToyModel(memory=0)
    batch = [[1, 1], [2, 3], [4, 5, 6], [7, 8, 9, 10]]
    lengths = [24, 18, 30, 12]
    answers = {tuple(p): naive_answer(model, tuple(p), n) for p, n in zip(batch, lengths, strict=True)}
    periods = iter([0, 2, 3, 5])
    session, runner = toy_session(model, None, lambda: OracleDrafter(answers, 16, next(periods)))
    params = [GenerationParams(max_new_tokens=n, mode="spec", gamma=4) for n in lengths]
    generations = session.generate(batch, params)
    assert ids(generations) == [tuple(answers[tuple(p)]) for p in batch]
    steps = [len(rounds_from_corruption(n, 4, c)) for n, c in zip(lengths, [0, 2, 3, 5], strict=True)]
    ar_steps = [generation.statistics.ar_steps for generation in generations]
    assert [generation.statistics.rounds for generation in generations] == steps
    assert len(runner.calls) == max(s + a for s, a in zip(steps, ar_steps, strict=True))
    assert len({s + a for s, a in zip(steps, ar_steps, strict=True)}) > 1


def test_a_waiting_prompt_enters_the_slot_of_a_finished_one_while_others_go_on():
    model = ToyModel(memory=0)
    manifest = toy_manifest(model, max_batch=2)
    session, runner = toy_session(model, manifest)
    params = [GenerationParams(max_new_tokens=n, mode="ar") for n in (20, 5, 5, 5)]
    generations = session.generate([[1], [2], [3], [4]], params)
    assert [len(g.token_ids) for g in generations] == [20, 5, 5, 5]
    assert len(runner.calls) == 20
    assert all(len(call.rows) <= 2 for call in runner.calls)
    assert [len(call.rows) for call in runner.calls[-5:]] == [1] * 5  # the free slot at the end is left out


def test_prefill_chunks_run_beside_verify_rows_in_one_call():
    model = ToyModel(memory=0)
    manifest = toy_manifest(model, prefill_chunk=4, max_batch=2)
    answers = {(1,): naive_answer(model, (1,), 60), tuple(range(14)): naive_answer(model, tuple(range(14)), 9)}
    session, runner = toy_session(model, manifest, lambda: OracleDrafter(answers, 16))
    params = GenerationParams(max_new_tokens=60, mode="spec", gamma=3)
    first = session.scheduler.submit(session._requests([[1]], params)[0])
    for _ in range(3):
        session.scheduler.step()
    second = session.scheduler.submit(session._requests([list(range(14))], replace(params, max_new_tokens=9))[0])
    before = len(runner.calls)
    while not session.scheduler.idle:
        session.scheduler.step()
    assert tuple(first.ids[1:]) == tuple(answers[1,])
    assert second.ids[14:] == answers[tuple(range(14))]
    mixed = [call for call in runner.calls[before:] if call.rows[0] == (4, 3) and call.rows[1:] == ((4, 0),)]
    assert len(mixed) == 3  # 14 prompt tokens in chunks of 4 beside three verify rows


def test_the_cache_holds_one_row_less_than_the_tokens_after_every_step():
    model = ToyModel(memory=0)
    answers = {(1, 2): naive_answer(model, (1, 2), 50)}
    for corrupt in (0, 1, 2, 3):  # all accepted, all rejected, alternating
        session, _ = toy_session(model, None, lambda c=corrupt: OracleDrafter(answers, 16, c))
        (request,) = session._requests([[1, 2]], GenerationParams(max_new_tokens=50, mode="spec", gamma=3))
        sequence = session.scheduler.submit(request)
        while sequence.finish_reason is None:
            session.scheduler.step()
            if sequence.finish_reason is None:
                assert sequence.cached == len(sequence.ids) - 1


def test_ar_calls_are_never_padded_by_a_drafting_neighbour_where_that_costs_more():
    """Compute-bound costs: T = B * S, so a shared call of 1 and 5 tokens costs 10 instead of 6."""
    costs = [StepCost(b, s, float(b * s)) for b in (1, 2, 4) for s in (1, 2, 4, 8, 16)]
    model = ToyModel(memory=0)
    answers = {(p,): naive_answer(model, (p,), 40) for p in range(4)}
    manifest = toy_manifest(model)
    session, runner = toy_session(
        model, manifest, lambda: OracleDrafter(answers, 16), step_costs=table_from_step_costs(costs)
    )
    params = [GenerationParams(max_new_tokens=40, mode=mode, gamma=4) for mode in ("ar", "spec", "ar", "spec")]
    generations = session.generate([[0], [1], [2], [3]], params)
    assert ids(generations) == [tuple(answers[p,]) for p in range(4)]
    for call in runner.calls:
        widths = {tokens for tokens, _ in call.rows if tokens}
        assert widths == {call.tokens}


def test_profiles_that_cannot_mix_rows_get_calls_of_their_own():
    profiles = (
        ProfileSpec("prefill", (1, 1, 4), (1, 8, 8), (1, 1, 1)),
        ProfileSpec("decode", (1, 4, 4), (1, 1, 1), (1, 1, 1)),
        ProfileSpec("verify", (1, 4, 4), (5, 5, 5), (5, 5, 5)),
    )
    model = ToyModel(memory=0)
    manifest = toy_manifest(model, toy_spec(profiles=profiles), max_gamma=4, prefill_chunk=8)
    # chunks in slots 0 and 2, a verify row between them: the second call's idle row was served by the first
    batch = [[2] * 20, [1], [3] * 21]
    answers = {tuple(p): naive_answer(model, tuple(p), 30) for p in batch}
    session, _ = toy_session(model, manifest, lambda: OracleDrafter(answers, 16, 3))
    generations = session.generate(batch, GenerationParams(max_new_tokens=30, mode="spec", gamma=4))
    assert ids(generations) == [tuple(answers[tuple(p)]) for p in batch]


def test_a_bundle_of_greedy_acceptance_gets_no_sampling_inputs():
    model = ToyModel(memory=0)
    session, _ = toy_session(model, toy_manifest(model, toy_spec(greedy=True)))
    params = GenerationParams(max_new_tokens=20, mode="spec")
    assert session.generate([[1]], params)[0].token_ids == tuple(naive_answer(model, (1,), 20))


def test_a_draft_outside_the_vocabulary_is_a_bug_that_is_named():
    model = ToyModel()
    session, _ = toy_session(model, None, lambda: OracleDrafter({(1,): [16] * 9}, 99))
    with pytest.raises(SpeccBug, match="proposed id 16, the vocabulary has 16"):
        session.generate([[1]], GenerationParams(max_new_tokens=9, mode="spec"))
    assert session.scheduler.idle  # the failed requests hold no slot


def test_ngram_without_a_match_counts_as_no_proposal_and_not_as_rejected():
    model = ToyModel(vocab_size=4096, memory=0)
    manifest = toy_manifest(model, draft=NgramDraftSpec("ngram", 2, 4))
    session, _ = toy_session(model, manifest)
    (generation,) = session.generate([[1, 2]], GenerationParams(max_new_tokens=20, mode="spec"))
    got = generation.statistics
    assert (got.rounds, got.proposed, got.mal) == (0, 0, None)
    # the first token ends the prompt and the last has no room for a draft: the drafter is not asked there
    assert (got.ar_steps, got.no_proposal) == (20, 18)
