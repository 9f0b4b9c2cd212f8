"""Suffix decoding against a suffix trie with a node for every substring."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specc.bundle.drafts import SuffixDraftSpec
from specc.runtime.drafters import SuffixDrafter, new_drafter_from_spec
from specc.runtime.drafters.suffix import SIZES, SuffixSettings
from specc.runtime.drafters.text_index import SessionText

SETTINGS = SuffixSettings(max_depth=64, factor=1.0, offset=0.0, min_token_prob=0.1)


class Trie:
    """Counts of all substrings of some texts; `last` is where one of them ended most recently."""

    def __init__(self, texts):
        self.count, self.last = {}, {}
        base = 0
        for text in texts:
            for start in range(len(text)):
                for end in range(start + 1, len(text) + 1):
                    key = tuple(text[start:end])
                    self.count[key] = self.count.get(key, 0) + 1
                    self.last[key] = max(self.last.get(key, 0), base + end)
            base += len(text) + 1

    def guess(self, context, limit, s):
        best = ((), 0.0)
        for m in range(1, min(s.max_depth, len(context)) + 1):
            pattern, tokens, score, chance = tuple(context[-m:]), (), 0.0, 1.0
            while len(tokens) < min(limit, int(m * s.factor + s.offset)):
                node = pattern + tokens
                children = {k[-1]: c for k, c in self.count.items() if len(k) == len(node) + 1 and k[:-1] == node}
                if not children:
                    break
                token = max(children, key=lambda t: (children[t], self.last[(*node, t)]))
                chance *= children[token] / sum(children.values())
                if chance < s.min_token_prob:
                    break
                tokens, score = (*tokens, token), score + chance
            if tokens and score >= best[1]:
                best = (tokens, score)
        return best


@given(
    st.lists(st.integers(0, 2), min_size=1, max_size=14),
    st.lists(st.lists(st.integers(0, 2), max_size=5), max_size=3),
    st.lists(st.lists(st.integers(0, 2), max_size=10), max_size=2),
    st.builds(
        SuffixSettings,
        max_depth=st.integers(1, 8),
        factor=st.sampled_from([0.5, 1.0, 2.0]),
        offset=st.sampled_from([-1.0, 0.0, 1.0]),
        min_token_prob=st.sampled_from([0.0, 0.1, 0.6]),
    ),
    st.integers(1, 6),
)
@settings(max_examples=200, deadline=None)
def test_equals_the_trie_after_every_block(prompt, blocks, outputs, chosen, limit):
    session = SessionText(SIZES, 1000)
    for output in outputs:
        session.add(output)
    drafter = SuffixDrafter(chosen, session)
    drafter.begin(prompt)
    ids = list(prompt)
    for block in [[], *blocks]:
        drafter.observe(block)
        ids += block
        local = Trie([ids]).guess(ids, limit, chosen)
        shared = Trie([output for output in outputs if output]).guess(ids, limit, chosen)
        wanted = local if local[1] >= shared[1] else shared
        made = drafter.propose(limit)
        got = made.tokens
        assert drafter.propose(limit) == made  # proposing leaves no trace
        assert made.context >= 1 if got else made.context == 0
        assert got == wanted[0]
        # Every draft continues an occurrence: the drafts stand, in order, in one of the texts.
        assert not got or any(
            tuple(text[at : at + len(got)]) == got for text in (ids, *outputs) for at in range(len(text))
        )


def test_the_draft_length_follows_the_match():
    drafter = SuffixDrafter(SETTINGS)
    drafter.begin([1, 2, 3, 4, 5, 6, 7, 8, 0, 3])
    assert drafter.propose(8).tokens == (4,)  # one token matches
    drafter.observe([4, 5])
    assert drafter.propose(8).tokens == (6, 7, 8)  # three match
    drafter.observe([9])
    assert drafter.propose(8).tokens == ()


def test_a_divided_continuation_is_cut_by_its_chance():
    drafter = SuffixDrafter(SuffixSettings(64, 4.0, 0.0, 0.5))
    drafter.begin([7, 1, 5, 5, 7, 1, 6, 7, 2, 7])  # after 7: 1 twice, 2 once; after 7 1: 5 or 6
    assert drafter.propose(8).tokens == (1,)


def test_outputs_of_finished_requests_are_copied_but_not_prompts():
    spec = SuffixDraftSpec("suffix", 64, 1.0, 0.0, 0.1, "session", 1000)
    make = new_drafter_from_spec(spec)
    first, second = make(), make()
    first.begin([50, 51, 52])
    first.observe([1, 2, 3])
    second.begin([1, 2])
    assert second.propose(4).tokens == ()  # the first is not finished
    first.observe([4, 5])
    first.end()
    assert second.propose(4).tokens == (3, 4)
    third = make()
    third.begin([50])
    assert third.propose(4).tokens == ()
    alone = new_drafter_from_spec(SuffixDraftSpec("suffix", 64, 1.0, 0.0, 0.1, "request", 1000))()
    alone.begin([1, 2])
    assert alone.propose(4).tokens == ()


@pytest.mark.parametrize("text", [[1] * 4000, [1, 2] * 2000, list(range(4000))], ids=["one token", "two", "all new"])
def test_a_proposal_is_far_cheaper_than_a_step(text):
    """The bound is loose, 20 ms on any machine; it holds off work that grows with the text."""
    drafter = SuffixDrafter(SETTINGS)
    drafter.begin(text)
    start = time.process_time()
    for _ in range(10):
        drafter.propose(8)
    assert (time.process_time() - start) / 10 < 0.02
