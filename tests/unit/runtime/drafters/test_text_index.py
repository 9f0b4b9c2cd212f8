from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from specc.runtime.drafters.text_index import END, SessionText, TextIndex

TOKENS = st.lists(st.integers(0, 3), max_size=12)


@given(st.lists(TOKENS, max_size=5), st.sets(st.integers(1, 4), min_size=1))
def test_followers_are_those_of_a_search(blocks, sizes):
    index, text = TextIndex(sizes), []
    for block in blocks:
        index.append(block)
        text += block
    assert index.ids == text
    for n in sizes:
        ngrams = {tuple(text[at : at + n]) for at in range(len(text) - n + 1)} | {(9,) * n}
        for ngram in ngrams:
            wanted = [at + n for at in range(len(text) - n) if tuple(text[at : at + n]) == ngram]
            assert list(index.followers(ngram)) == wanted


@given(st.lists(TOKENS, max_size=30), st.integers(1, 40))
def test_a_session_remembers_the_newest_outputs_within_its_capacity(outputs, capacity):
    session, newest = SessionText((1, 2), capacity), [output[-capacity:] for output in outputs if output]
    for output in outputs:
        session.add(output)
    text = session.index.ids
    held = [list(part) for part in "".join(map(chr, (t + 1 for t in text))).split(chr(0)) if part]
    held = [[ord(char) - 1 for char in part] for part in held]
    assert held == newest[len(newest) - len(held) :]
    assert sum(map(len, held)) <= capacity
    assert bool(held) == bool(newest)
    assert all(
        text[at] != END for n in (1, 2) for key in session.index._followers for at in session.index.followers(key)
    )


@given(st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=6), min_size=1, max_size=6), st.integers(1, 8))
def test_a_copy_ends_with_its_output(outputs, limit):
    session = SessionText((1,), 1000)
    for output in outputs:
        session.add(output)
    start = 0
    for output in outputs:
        for at in range(len(output)):
            assert list(session.copy(start + at, limit)) == output[at : at + limit]
        start += len(output) + 1
