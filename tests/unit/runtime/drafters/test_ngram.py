"""The n-gram drafter against a search of the whole sequence."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specc.bundle.manifest import NgramDraftSpec, NoDraftSpec
from specc.runtime.drafters import DRAFTERS, drafter_from_spec
from specc.runtime.drafters.ngram import NgramDrafter


def searched(ids: list[int], least: int, most: int, limit: int) -> list[int]:
    """Longest n first; the last earlier place of the last n tokens; the copy runs on into itself."""
    for n in range(most, least - 1, -1):
        if n > len(ids):
            continue
        for start in range(len(ids) - n - 1, -1, -1):
            if ids[start : start + n] == ids[-n:]:
                extended = list(ids)
                for k in range(limit):
                    extended.append(extended[start + n + k])
                return extended[len(ids) :]
    return []


@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=30),
    st.lists(st.lists(st.integers(0, 3), max_size=6), max_size=6),
    st.integers(1, 3),
    st.integers(0, 3),
    st.integers(1, 8),
)
@settings(max_examples=300, deadline=None)
def test_equals_a_search_after_every_block(prompt, blocks, least, more, limit):
    drafter = NgramDrafter(min_ngram=least, max_ngram=least + more)
    drafter.begin(prompt)
    ids = list(prompt)
    assert drafter.propose(limit) == searched(ids, least, least + more, limit)
    for block in blocks:
        drafter.observe(block)
        ids += block
        assert drafter.propose(limit) == searched(ids, least, least + more, limit)
        assert drafter.propose(limit) == drafter.propose(limit)  # proposing leaves no trace


def test_a_period_repeats_beyond_the_end_of_the_sequence():
    drafter = NgramDrafter(min_ngram=2, max_ngram=3)
    drafter.begin([9, 1, 2, 3, 1, 2, 3, 1, 2])
    assert drafter.propose(8) == [3, 1, 2, 3, 1, 2, 3, 1]


def test_the_most_recent_match_wins_and_the_longest_n_comes_first():
    drafter = NgramDrafter(min_ngram=1, max_ngram=2)
    drafter.begin([1, 2, 7, 5, 2, 8, 1, 2])
    assert drafter.propose(1) == [7]  # (1, 2) beats the newer (2)
    drafter.observe([9, 2])
    assert drafter.propose(1) == [9]


def test_begin_forgets_the_last_request():
    drafter = NgramDrafter(min_ngram=1, max_ngram=2)
    drafter.begin([1, 2, 1])
    drafter.begin([1])
    assert drafter.propose(4) == []


def test_every_kind_of_the_manifest_has_a_row():
    assert set(DRAFTERS) == {"ngram", "none"}
    assert isinstance(drafter_from_spec(NgramDraftSpec("ngram", 1, 4)), NgramDrafter)
    assert drafter_from_spec(NoDraftSpec("none")) is None


@pytest.mark.parametrize("size", [200])
def test_looking_up_a_long_sequence_copies_nothing_of_it(size):
    drafter = NgramDrafter(min_ngram=1, max_ngram=4)
    drafter.begin(list(range(size)))
    assert drafter.propose(8) == []
