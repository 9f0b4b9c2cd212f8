"""The drafter over a draft engine: what it feeds at which row, for every history that a request can have."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specc.bundle.manifest import LimitsSpec
from specc.errors import SpeccBug
from specc.runtime.call_costs import CallCosts
from specc.runtime.drafters import Ask, EngineDrafter
from specc.runtime.request import Sampling
from tests.double_runner import ToyModel, ToyRunner, naive_answer
from tests.draft_runner import ToyDraftRunner

GREEDY = Sampling(0.0, 0, 1.0, 0.0, 0)
MODEL = ToyModel(memory=0)


def drafter_over(
    runner: ToyDraftRunner, *, chunk: int = 8, context: int = 400, shares_caches: bool = False, vocab_size: int = 16
) -> EngineDrafter:
    limits = LimitsSpec(4, 400, 400, 400, chunk, 8, 4)
    costs = CallCosts(runner.spec, None)
    return EngineDrafter(
        runner, limits, context=context, vocab_size=vocab_size, costs=costs, shares_caches=shares_caches
    )


def propose(drafter: EngineDrafter, ids: list[int], limit: int, slot: int = 0) -> tuple[int, ...]:
    """Ask for one row; the target holds all of it but its anchor."""
    made = drafter.propose({slot: Ask(ids, limit, GREEDY)}, {slot: len(ids) - 1})
    return made[slot].tokens if limit else ()


def fed(runner: ToyDraftRunner) -> list[tuple[int, tuple[int, ...]]]:
    """Return (first row, tokens) of every call since the last look, of a single row."""
    calls, runner.calls = runner.calls, []
    return [(past, tokens) for call in calls for _, past, tokens in call.rows]


@pytest.fixture
def prefilled() -> tuple[EngineDrafter, ToyDraftRunner, list[int]]:
    """Return a drafter that has read the prompt x0..x4, its engine, and x0..x5: appendix A of drafters.md."""
    runner = ToyDraftRunner(MODEL)
    drafter = drafter_over(runner)
    prompt = [3, 1, 4, 1, 5]
    propose(drafter, prompt, 0)
    assert fed(runner) == [(0, tuple(prompt))]  # draft(x0..x4), 5 rows
    return drafter, runner, [*prompt, 9]


def test_a_round_feeds_the_anchor_and_every_draft_but_the_last(prefilled):
    drafter, runner, ids = prefilled
    d1, d2, d3 = propose(drafter, ids, 3)
    assert [d1, d2, d3] == naive_answer(MODEL, tuple(ids), 3)
    assert fed(runner) == [(5, (9,)), (6, (d1,)), (7, (d2,))]  # 8 rows


@pytest.mark.parametrize("accepted", [0, 1, 2, 3])
def test_the_cache_keeps_the_lesser_of_l_plus_a_and_l_minus_1_plus_gamma(prefilled, accepted):
    drafter, runner, ids = prefilled
    drafts = propose(drafter, ids, 3)
    fed(runner)
    other = (naive_answer(MODEL, (*ids, *drafts[:accepted]), 1)[0] + 1) % 16
    after = [*ids, *drafts[:accepted], other]
    kept = min(len(ids) + accepted, len(ids) - 1 + 3)
    propose(drafter, after, 1)
    assert fed(runner) == [(kept, tuple(after[kept:]))]
    assert len(after) - kept == (2 if accepted == 3 else 1)  # d3 was never fed


def test_appendix_a_when_one_draft_is_accepted(prefilled):
    drafter, runner, ids = prefilled
    d1, *_ = propose(drafter, ids, 3)
    fed(runner)
    propose(drafter, [*ids, d1, 0 if d1 else 1], 1)
    ((row, _),) = fed(runner)
    assert row == 7  # x7 at row 7


def test_appendix_a_when_all_drafts_are_accepted(prefilled):
    drafter, runner, ids = prefilled
    drafts = propose(drafter, ids, 3)
    fed(runner)
    after = [*ids, *drafts, 2]
    propose(drafter, after, 2)
    first, second = fed(runner)
    assert first == (8, (drafts[2], 2))  # d3 at row 8 and x9 at row 9, in one call
    assert second[0] == 10


@dataclass
class History:
    """One slot of the property test: its committed tokens."""

    ids: list[int]


steps = st.lists(
    st.tuples(
        st.integers(0, 2),  # slot
        st.sampled_from(["round", "round", "ar", "new", "prompt"]),
        st.integers(0, 9),  # drafts accepted, tokens decoded, or length of a prompt
        st.integers(1, 6),  # gamma
    ),
    min_size=1,
    max_size=25,
)


@given(steps, st.sampled_from([2, 3, 64]), st.integers(0, 3))
@settings(max_examples=150, deadline=None)
def test_proposals_are_the_drafts_of_the_committed_tokens_whatever_came_before(history, chunk, seed):
    """AR decoding in between, rejections, full acceptances, other rows, new requests in the slot: nothing is left."""
    runner = ToyDraftRunner(MODEL)
    drafter = drafter_over(runner, chunk=chunk)
    rng = np.random.default_rng(seed)
    slots: dict[int, History] = {}
    for slot, kind, count, gamma in history:
        if slot not in slots or kind == "new":
            slots[slot] = History(rng.integers(0, 16, 1 + count).tolist())
            drafter.begin(slot)
        held = slots[slot]
        cached = {s: len(h.ids) - 1 for s, h in slots.items()}
        if kind == "ar":
            held.ids += rng.integers(0, 16, count).tolist()
        elif kind == "prompt":
            drafter.propose({slot: Ask(held.ids, 0, GREEDY)}, cached)
            held.ids.append(int(rng.integers(0, 16)))
        else:
            asks = {s: Ask(h.ids, gamma if s == slot else 2, GREEDY) for s, h in slots.items()}
            made = drafter.propose(asks, cached)
            while not made[slot].tokens:  # one chunk a step, until it has caught up
                made = drafter.propose(asks, cached)
            for s, proposal in made.items():
                tokens = list(proposal.tokens)
                assert tokens in ([], naive_answer(MODEL, tuple(slots[s].ids), asks[s].limit))
            drafts = list(made[slot].tokens)
            held.ids += [*drafts[:count], int(rng.integers(0, 16))]


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(1, 5)), min_size=1, max_size=12))
@settings(max_examples=50, deadline=None)
def test_over_shared_caches_only_the_anchor_and_drafts_are_fed(rounds):
    target = ToyRunner(MODEL)
    runner = ToyDraftRunner(MODEL, shared=target)
    drafter = drafter_over(runner, shares_caches=True)
    ids = [1, 2, 3]
    target.reserve(1, 400)
    assert propose(drafter, ids, 0) == ()  # the target reads the prompt
    assert runner.calls == []
    for accepted, gamma in rounds:
        target._cache[0, : len(ids) - 1] = ids[:-1]
        drafts = propose(drafter, ids, gamma)
        assert list(drafts) == naive_answer(MODEL, tuple(ids), gamma)
        assert [row for row, _ in fed(runner)] == [len(ids) - 1 + k for k in range(gamma)]
        ids = [*ids, *drafts[:accepted], 7]


def test_rows_share_each_call_and_stop_at_their_own_limit():
    runner = ToyDraftRunner(MODEL)
    drafter = drafter_over(runner)
    prompts = {0: [1, 2], 1: [3], 2: [4, 5, 6]}
    asks = {slot: Ask(ids, limit, GREEDY) for (slot, ids), limit in zip(prompts.items(), (4, 1, 2), strict=True)}
    made = drafter.propose(asks, {slot: len(ids) - 1 for slot, ids in prompts.items()})
    assert [len(made[slot].tokens) for slot in prompts] == [4, 1, 2]
    assert [len(call.rows) for call in runner.calls] == [3, 2, 1, 1]


@pytest.mark.parametrize(("length", "drafts"), [(6, 4), (17, 4), (18, 3), (20, 1), (21, 0), (30, 0)])
def test_a_draft_with_a_shorter_context_drafts_up_to_its_end(length, drafts):
    """C1: row `context` - 1 is the last one that is ever written with a token."""
    runner = ToyDraftRunner(MODEL)
    drafter = drafter_over(runner, chunk=64, context=20)
    ids = [i % 16 for i in range(length)]
    assert len(propose(drafter, ids, 4)) == drafts
    assert runner.highest_row <= 20
    if not drafts:
        assert runner.calls == []


def test_a_prompt_beyond_the_context_is_not_read():
    runner = ToyDraftRunner(MODEL)
    drafter = drafter_over(runner, context=20)
    propose(drafter, [i % 16 for i in range(21)], 0)
    assert runner.calls == []


def test_a_row_that_lags_is_fed_a_chunk_a_step_and_proposes_nothing_until_then():
    runner = ToyDraftRunner(MODEL)
    drafter = drafter_over(runner, chunk=8)
    ids = [i % 16 for i in range(20)]
    assert [len(propose(drafter, ids, 2)) for _ in range(3)] == [0, 0, 2]
    assert [(past, len(tokens)) for past, tokens in fed(runner)] == [(0, 8), (8, 8), (16, 4), (20, 1)]


def test_an_id_outside_the_vocabulary_is_a_bug_and_is_never_proposed():
    runner = ToyDraftRunner(ToyModel(vocab_size=16, alphabet=(15,)))
    drafter = drafter_over(runner, vocab_size=15)
    with pytest.raises(SpeccBug, match="drafted id 15, the vocabulary has 15"):
        propose(drafter, [1, 2], 2)
