from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specc.bundle.statistics import AcceptanceStatistics
from specc.certify.near_tie import never_near_tie
from specc.certify.parity import COUPLED_CELLS, ParityCell, check_parity, first_difference
from specc.runtime.generation import Generation, Usage

AR = [(5, 6, 7), (8, 9), (1, 2, 3, 4)]
PROMPTS = [[10, 11], [12], [13, 14, 15]]


def generation(ids, params):
    rounds = 3 if params.mode == "spec" else 0
    statistics = AcceptanceStatistics(rounds, 0, 0, 6 * (rounds > 0), 2 * (rounds > 0), (), (), ())
    usage = Usage(1, len(ids))
    return Generation("", ids, "length", None, usage, params.mode, params.seed, statistics, (), 0.0, 0.0)


def checked(speculative, near_tie=never_near_tie, cell=COUPLED_CELLS[0]):
    asked = []

    def generate(prompts, params):
        assert prompts == PROMPTS
        asked.append(params)
        return [generation(ids, params) for ids in (speculative if params.mode == "spec" else AR)]

    parity = check_parity(generate, PROMPTS, cell, near_tie, gamma=4, max_new_tokens=4, epsilon=1e-3)
    return parity, asked


def test_equal_ids_pass_and_both_ways_get_the_same_settings():
    cell = ParityCell(0.7, 5, 0.9, 0.1, 3)
    parity, (ar, spec) = checked(AR, cell=cell)
    assert parity.differences == ()
    assert (parity.check.equal, parity.check.near_ties, parity.check.prompts, parity.check.tokens) == (3, 0, 3, 9)
    assert (parity.check.rounds, parity.check.accepted, parity.check.gamma) == (3 * 3, 2 * 3, 4)
    assert (ar.mode, ar.gamma, spec.mode, spec.gamma) == ("ar", None, "spec", 4)
    for params in (ar, spec):
        assert (params.temperature, params.top_k, params.top_p, params.min_p, params.seed) == (0.7, 5, 0.9, 0.1, 3)
        assert params.max_new_tokens == 4


def test_a_difference_is_named_with_its_place():
    parity, _ = checked([AR[0], AR[1], (1, 2, 9, 4)])
    (difference,) = parity.differences
    assert (difference.prompt, difference.token, difference.ar, difference.speculative) == (2, 2, 3, 9)
    assert str(difference) == (
        "coupled, temperature 0.3, seed 1: prompt 2 differs at generated token 2: AR gave id 3, speculation id 9"
    )
    assert parity.check.equal == 2


def test_a_near_tie_is_judged_on_the_tokens_before_it_and_counted():
    judged = []

    def near_tie(ids, cell):
        judged.append(ids)
        return True

    parity, _ = checked([AR[0], AR[1], (1, 2, 9, 9)], near_tie)
    assert judged == [[13, 14, 15, 1, 2]]
    assert (parity.check.equal, parity.check.near_ties, parity.differences) == (2, 1, ())


@pytest.mark.parametrize("speculative", [(8,), (8, 9, 9)])
def test_another_end_is_never_excused(speculative):
    parity, _ = checked([AR[0], speculative, AR[2]], near_tie=lambda *_: True)
    (difference,) = parity.differences
    assert "the end" in str(difference)
    assert parity.check.near_ties == 0


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
