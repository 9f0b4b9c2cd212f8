from __future__ import annotations

import numpy as np

from specc.speculation.draft_law import dense_q


def dense(ids, probs, draft, size=4):
    return dense_q(np.array([ids]), np.array([probs], dtype=np.float32), np.array([draft]), size)[0].tolist()


def test_what_is_listed_is_q():
    assert dense([2, 0], [0.75, 0.25], 0) == [0.25, 0, 0.75, 0]
    assert dense([-1, 2, 0], [0.0, 0.75, 0.25], 2) == [0.25, 0, 0.75, 0]


def test_what_states_nothing_is_passed_over():
    assert dense([2, -1, 9, 1], [0.75, 0.5, 0.5, 0.0], 2) == [0, 0, 0.75, 0]


def test_an_unlisted_draft_is_one_hot():
    assert dense([-1], [0.0], 3) == [0, 0, 0, 1]
    assert dense([2, 0], [0.75, 0.25], 1) == [0, 1, 0, 0]
    assert dense([1, 0], [0.0, 1.0], 1) == [0, 1, 0, 0]


def test_a_draft_beyond_the_vocabulary_takes_nothing():
    assert dense([2], [1.0], 9) == [0, 0, 0, 0]
