"""The n-gram drafter against a search of the whole sequence."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specc.bundle.drafts import NgramDraftSpec, NoDraftSpec
from specc.runtime import GenerationParams
from specc.runtime.context_acceptance import MOST_CONTEXT
from specc.runtime.drafters import DRAFTERS, Proposal, new_drafter_from_spec
from specc.runtime.drafters.ngram import NgramDrafter
from specc.runtime.drafters.text_index import SessionText
from tests.double_runner import ToyModel, toy_manifest, toy_session


def searched(
    ids: list[int], least: int, most: int, limit: int, *, match: str = "recent", outputs: tuple[list[int], ...] = ()
) -> list[int]:
    """Longest n first; an earlier place of the last n tokens, where the copy runs on into itself; then the outputs."""
    for n in range(most, least - 1, -1):
        if n > len(ids):
            continue
        starts = range(len(ids) - n)
        for start in starts if match == "leftmost" else reversed(starts):
            if ids[start : start + n] == ids[-n:]:
                extended = list(ids)
                for k in range(limit):
                    extended.append(extended[start + n + k])
                return extended[len(ids) :]
        for output in reversed(outputs):
            for start in reversed(range(len(output) - n)):
                if output[start : start + n] == ids[-n:]:
                    return output[start + n : start + n + limit]
    return []


@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=30),
    st.lists(st.lists(st.integers(0, 3), max_size=6), max_size=6),
    st.tuples(st.integers(1, 3), st.integers(0, 3), st.integers(1, 8)),
    st.sampled_from(["recent", "leftmost"]),
    st.lists(st.lists(st.integers(0, 3), max_size=12), max_size=3).map(tuple),
)
@settings(max_examples=300, deadline=None)
def test_equals_a_search_after_every_block(prompt, blocks, sizes, match, outputs):
    least, more, limit = sizes
    most = least + more
    session = SessionText(range(least, most + 1), 1000)
    for output in outputs:
        session.add(output)
    drafter = NgramDrafter(least, most, match, session)
    drafter.begin(prompt)
    ids = list(prompt)
    assert list(drafter.propose(limit).tokens) == searched(ids, least, most, limit, match=match, outputs=outputs)
    for block in blocks:
        drafter.observe(block)
        ids += block
        made = drafter.propose(limit)
        assert list(made.tokens) == searched(ids, least, most, limit, match=match, outputs=outputs)
        assert drafter.propose(limit) == made  # proposing leaves no trace
        assert made.context >= least if made.tokens else made.context == 0


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
