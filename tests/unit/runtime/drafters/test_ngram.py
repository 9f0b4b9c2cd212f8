"""The n-gram drafter against a search of the whole sequence."""

from __future__ import annotations

from itertools import takewhile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specc.bundle.drafts import NgramDraftSpec, NoDraftSpec
from specc.runtime import GenerationParams
from specc.runtime.context_acceptance import MOST_CONTEXT
from specc.runtime.drafters import DRAFTERS, Proposal, new_drafter_from_spec
from specc.runtime.drafters.followed_copy import AFTER_CHANGE, LONG_COPIED
from specc.runtime.drafters.ngram import NgramDrafter
from specc.runtime.drafters.text_index import SessionText
from tests.double_runner import ToyModel, toy_manifest, toy_session


def agreement(text: list[int], at: int, ids: list[int]) -> int:
    """Tokens before a place that are the same as at the end of `ids`."""
    pairs = zip(reversed(text[:at]), reversed(ids), strict=False)
    return min(MOST_CONTEXT, len(list(takewhile(lambda pair: pair[0] == pair[1], pairs))))


def continued(ids: list[int], start: int, limit: int) -> tuple[int, ...]:
    """The tokens from a place on, where the copy runs on into itself."""
    extended = list(ids)
    for k in range(limit):
        extended.append(extended[start + k])
    return tuple(extended[len(ids) :])


def searched(
    ids: list[int], least: int, most: int, limit: int, *, match: str = "recent", outputs: tuple[list[int], ...] = ()
) -> tuple[Proposal, Proposal]:
    """Longest n first, in the text itself and in the outputs."""
    own, other = Proposal(()), Proposal(())
    for n in range(least, min(most, len(ids)) + 1):
        starts = [start for start in range(len(ids) - n) if ids[start : start + n] == ids[-n:]]
        if starts:
            at = (starts[0] if match == "leftmost" else starts[-1]) + n
            own = Proposal(continued(ids, at, limit), context=agreement(ids, at, ids))
        for output in outputs:
            for start in range(len(output) - n):
                if output[start : start + n] == ids[-n:]:
                    drafts = tuple(output[start + n : start + n + limit])
                    other = Proposal(drafts, context=agreement(output, start + n, ids))
    return own, other


@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=30),
    st.lists(st.lists(st.integers(0, 3), max_size=6), max_size=6),
    st.tuples(st.integers(1, 3), st.integers(0, 3), st.integers(1, 8)),
    st.sampled_from(["recent", "leftmost"]),
    st.lists(st.lists(st.integers(0, 3), max_size=12), max_size=3).map(tuple),
)
@settings(max_examples=300, deadline=None)
def test_equals_a_search_after_every_block_unless_more_agrees_with_a_copy_under_way(
    prompt, blocks, sizes, match, outputs
):
    least, more, limit = sizes
    most = least + more
    session = SessionText(range(least, most + 1), 1000)
    for output in outputs:
        session.add(output)
    drafter, by_token = (NgramDrafter(least, most, match, session) for _ in range(2))
    drafter.begin(prompt)
    by_token.begin(prompt)
    ids = list(prompt)
    own, other = searched(ids, least, most, limit, match=match, outputs=outputs)
    assert drafter.propose(limit) == (other if other.context > own.context else own)
    for block in blocks:
        drafter.observe(block)
        for token in block:
            by_token.observe([token])
            by_token.propose(limit)
        ids += block
        made = drafter.propose(limit)
        assert made == drafter.propose(limit) == by_token.propose(limit)  # neither blocks nor proposing leave a trace
        own, other = searched(ids, least, most, limit, match=match, outputs=outputs)
        if made != (other if other.context > own.context else own):
            assert made.context > own.context
            assert made.context >= max(other.context, least)
            assert made.tokens in [continued(ids, start, limit) for start in range(len(ids))]


COPIED = list(range(10, 30))


def drafts_after(*answer: int, prompt: list[int] | None = None, limit: int = 3, least: int = 1) -> Proposal:
    drafter = NgramDrafter(min_ngram=least, max_ngram=4)
    drafter.begin([*(COPIED if prompt is None else prompt), 1])
    drafter.observe(answer)
    return drafter.propose(limit)


def test_a_copy_goes_on_behind_a_token_that_it_replaced():
    assert drafts_after(*COPIED[:8]) == Proposal((18, 19, 20), context=8)
    assert drafts_after(*COPIED[:8], 99) == Proposal((19, 20, 21), context=AFTER_CHANGE)
    assert drafts_after(*COPIED[:8], 99, 19) == Proposal((20, 21, 22), context=LONG_COPIED)
    assert drafts_after(*COPIED[:8], 99, 19, 20) == Proposal((21, 22, 23), context=LONG_COPIED + 1)


def test_a_copy_goes_on_behind_a_token_that_it_put_in():
    assert drafts_after(*COPIED[:8], 99, 18) == Proposal((19, 20, 21), context=LONG_COPIED)


def test_a_copy_goes_on_though_the_next_token_stands_at_a_later_place_too():
    """After `, she` of a changed text, the last `she` is not where the copy goes on."""
    prompt = [*COPIED, 19, 50, 51]
    assert drafts_after(*COPIED[:8], 99, 19, prompt=prompt).tokens == (20, 21, 22)
    assert drafts_after(99, 19, prompt=prompt).tokens == (50, 51, 1)


def test_a_copy_that_changes_one_token_after_the_other_goes_on():
    assert drafts_after(*COPIED[:8], 98, 19, 99, 21) == Proposal((22, 23, 24), context=LONG_COPIED)


def test_a_short_copy_promises_less_behind_its_change():
    assert drafts_after(*COPIED[:5], 99, 16) == Proposal((17, 18, 19), context=AFTER_CHANGE)


@pytest.mark.parametrize("answer", [(*COPIED[:4], 99), (*COPIED[:8], 98, 99), (98, 99)])
def test_few_tokens_in_a_row_and_two_changes_in_a_row_leave_no_copy(answer):
    assert drafts_after(*answer) == Proposal(())


def test_a_run_of_one_token_leaves_no_copy_behind_its_end():
    assert drafts_after(*[5] * 6, 8, prompt=[5] * 9) == Proposal(())
    assert drafts_after(*[5] * 6, 8, 5, prompt=[5] * 9).context == 1


def test_the_smallest_n_bounds_what_goes_on_behind_a_change():
    assert drafts_after(*COPIED[:8], 99, least=3) == Proposal(())
    assert drafts_after(*COPIED[:5], 99, 16, least=3) == Proposal(())
    assert drafts_after(*COPIED[:8], 99, 19, least=3) == Proposal((20, 21, 22), context=LONG_COPIED)


def test_a_changed_token_that_the_text_knows_is_looked_up():
    """It tells more of what follows than the place that was left."""
    assert drafts_after(*COPIED[:8], 25) == Proposal((26, 27, 28), context=1)


def test_a_period_repeats_beyond_the_end_of_the_sequence():
    drafter = NgramDrafter(min_ngram=2, max_ngram=3)
    drafter.begin([9, 1, 2, 3, 1, 2, 3, 1, 2])
    assert list(drafter.propose(8).tokens) == [3, 1, 2, 3, 1, 2, 3, 1]


def test_the_most_recent_match_wins_and_the_longest_n_comes_first():
    drafter = NgramDrafter(min_ngram=1, max_ngram=2)
    drafter.begin([1, 2, 7, 5, 2, 8, 1, 2])
    assert list(drafter.propose(1).tokens) == [7]  # (1, 2) beats the newer (2)
    drafter.observe([9, 2])
    assert list(drafter.propose(1).tokens) == [9]


def test_a_proposal_says_how_many_tokens_before_it_agree_also_beyond_the_longest_n():
    drafter = NgramDrafter(min_ngram=1, max_ngram=2)
    drafter.begin([5, 1, 2, 3, 4, 9, 6, 1, 2, 3, 4])
    assert drafter.propose(1) == Proposal((9,), context=4)
    drafter.observe([7, 2])
    assert drafter.propose(2) == Proposal((3, 4), context=1)
    drafter.observe([8])
    assert drafter.propose(2) == Proposal(())
    drafter.begin([0, 1] * 20)
    assert drafter.propose(1) == Proposal((0,), context=MOST_CONTEXT)


def test_begin_forgets_the_last_request():
    drafter = NgramDrafter(min_ngram=1, max_ngram=2)
    drafter.begin([1, 2, 1])
    drafter.begin([1])
    assert list(drafter.propose(4).tokens) == []


def test_the_leftmost_match_is_an_option():
    text = [1, 7, 2, 1, 8, 3, 1]
    for match, follower in (("recent", 8), ("leftmost", 7)):
        drafter = NgramDrafter(1, 2, match)
        drafter.begin(text)
        assert drafter.propose(1).tokens == (follower,)


def test_a_session_shares_outputs_between_its_requests_alone():
    spec = NgramDraftSpec("ngram", 1, 2, scope="session", session_tokens=100)
    make = new_drafter_from_spec(spec)
    first = make()
    first.begin([9, 9])
    first.observe([1, 2, 3])
    first.end()
    second = make()
    second.begin([4, 1, 2])
    assert second.propose(4).tokens == (3,)
    other = new_drafter_from_spec(spec)()
    other.begin([4, 1, 2])
    assert other.propose(4).tokens == ()


def test_every_kind_of_the_manifest_has_a_row():
    assert set(DRAFTERS) == {"ngram", "suffix", "none", "model", "self"}
    assert isinstance(new_drafter_from_spec(NgramDraftSpec("ngram", 1, 4))(), NgramDrafter)
    assert new_drafter_from_spec(NoDraftSpec("none"))() is None


@pytest.mark.parametrize("size", [200])
def test_looking_up_a_long_sequence_copies_nothing_of_it(size):
    drafter = NgramDrafter(min_ngram=1, max_ngram=4)
    drafter.begin(list(range(size)))
    assert list(drafter.propose(8).tokens) == []


def test_a_session_forgets_its_outputs_when_asked():
    """Three runs of one prompt: the second copies the first's output, the third knows nothing again."""
    model = ToyModel(memory=0)
    manifest = toy_manifest(model, draft=NgramDraftSpec("ngram", 2, 4, scope="session"))
    session, _ = toy_session(model, manifest)
    params = GenerationParams(max_new_tokens=24, mode="spec", gamma=4)
    first, second = (session.generate([[1, 2, 3]], params)[0] for _ in range(2))
    session.forget_outputs()
    third = session.generate([[1, 2, 3]], params)[0]
    assert first.token_ids == second.token_ids == third.token_ids
    assert second.statistics.accepted > first.statistics.accepted + 8
    assert third.statistics == first.statistics
