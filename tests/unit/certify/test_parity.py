from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specc.bundle.certificate import Divergence
from specc.bundle.statistics import AcceptanceStatistics
from specc.certify.near_tie import unknown_narrowness
from specc.certify.parity import COUPLED_CELLS, Narrowness, ParityCell, check_parity, first_difference
from specc.certify.verdict import failure_of_parity
from specc.runtime.generation import Generation, Usage

AR = [(5, 6, 7), (8, 9), (1, 2, 3, 4)]
PROMPTS = [[10, 11], [12], [13, 14, 15]]


def generation(ids, params):
    rounds = 3 if params.mode == "spec" else 0
    statistics = AcceptanceStatistics(rounds, 0, 0, 6 * (rounds > 0), 2 * (rounds > 0), (), (), ())
    usage = Usage(1, len(ids))
    return Generation("", ids, "length", None, usage, params.mode, params.seed, statistics, (), 0.0, 0.0)


def checked(speculative, judge=unknown_narrowness, cell=COUPLED_CELLS[0]):
    asked = []

    def generate(prompts, params):
        assert prompts == PROMPTS
        asked.append(params)
        answers = speculative if params[0].mode == "spec" else AR
        return [generation(ids, own) for ids, own in zip(answers, params, strict=True)]

    parity = check_parity(generate, PROMPTS, cell, judge, gamma=4, max_new_tokens=4, epsilon=1e-3)
    return parity.check, asked


def test_equal_ids_pass_and_both_ways_get_the_same_settings():
    cell = ParityCell(0.7, 5, 0.9, 0.1, 3)
    check, asked = checked(AR, cell=cell)
    assert check.divergences == ()
    assert (check.equal, check.near_ties, check.prompts, check.tokens) == (3, 0, 3, 9)
    assert (check.rounds, check.accepted, check.gamma) == (3 * 3, 2 * 3, 4)
    for ar, spec in zip(*asked, strict=True):
        assert (ar.mode, ar.gamma, spec.mode, spec.gamma) == ("ar", None, "spec", 4)
        for params in (ar, spec):
            assert (params.temperature, params.top_k, params.top_p, params.min_p) == (0.7, 5, 0.9, 0.1)
            assert params.max_new_tokens == 4
    for way in asked:
        assert [params.seed for params in way] == [3, 1003, 2003]  # prompts share no noise


def test_a_difference_is_named_with_its_place():
    check, _ = checked([AR[0], AR[1], (1, 2, 9, 4)])
    assert check.divergences == (Divergence(2, 2, 3, 9, None, near_tie=False),)
    assert check.equal == 2
    assert failure_of_parity((check,)) == (
        "1 of 3 generations differ; coupled, temperature 0.3: prompt 2 differs at generated token 2: AR gave id 3, "
        "speculation id 9, margin unknown"
    )


def test_a_near_tie_is_judged_on_the_tokens_before_it_and_counted_with_its_margin():
    judged = []

    def judge(ids, cell):
        judged.append((ids, cell.seed))
        return Narrowness(1e-4, near_tie=True)

    check, _ = checked([AR[0], AR[1], (1, 2, 9, 9)], judge)
    assert judged == [([13, 14, 15, 1, 2], 2001)]
    assert (check.equal, check.near_ties) == (2, 1)
    assert check.divergences == (Divergence(2, 2, 3, 9, 1e-4, near_tie=True),)
    assert failure_of_parity((check,)) is None


@pytest.mark.parametrize("speculative", [(8,), (8, 9, 9)])
def test_another_end_is_never_excused(speculative):
    check, _ = checked([AR[0], speculative, AR[2]], judge=lambda *_: Narrowness(0.0, near_tie=True))
    assert "the end" in failure_of_parity((check,))
    assert check.near_ties == 0


def test_cells_name_their_mode():
    assert ParityCell().mode == "greedy"
    assert {cell.mode for cell in COUPLED_CELLS} == {"coupled"}


@given(st.lists(st.integers(0, 1), max_size=6), st.lists(st.integers(0, 1), max_size=6))
def test_first_difference(one, other):
    at = first_difference(one, other)
    if at is None:
        assert one == other
    else:
        assert one[:at] == other[:at]
        assert one[at : at + 1] != other[at : at + 1]
