"""What callers hand in: every meant form means the same, the rest is refused, and nothing is converted silently."""

from __future__ import annotations

import numpy as np
import pytest

from specc.errors import SpeccError
from specc.runtime.given import params_from_given, prompts_from_given
from specc.runtime.params import GenerationParams


@pytest.mark.parametrize(
    "given",
    [[1, 2, 3], (1, 2, 3), np.array([1, 2, 3]), [np.int64(1), np.int32(2), 3], iter([1, 2, 3]), range(1, 4)],
)
def test_one_row_of_ids(given) -> None:
    assert prompts_from_given(given) == [(1, 2, 3)]


@pytest.mark.parametrize(
    "given",
    [["a", [1, 2]], ("a", (1, 2)), (item for item in ["a", np.array([1, 2])]), ["a", iter([1, 2])]],
)
def test_several_prompts(given) -> None:
    assert prompts_from_given(given) == ["a", (1, 2)]


def test_nothing_is_no_prompt_and_an_empty_row_is_one() -> None:
    assert prompts_from_given([]) == []
    assert prompts_from_given([[]]) == [()]
    assert prompts_from_given("text") == ["text"]
    assert [list(map(int, row)) for row in prompts_from_given(np.array([[1, 2], [3, 4]]))] == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    ("given", "place"),
    [
        (5, "prompts"),
        ([1, "hello", [2]], "prompts[0]"),
        ([[1.5]], "prompts[0][0]"),
        ([[True]], "prompts[0][0]"),
        ([["a"]], "prompts[0][0]"),
        ([b"bytes"], "prompts[0]"),
        ([{"a": 1}], "prompts[0]"),
        ([[np.True_]], "prompts[0][0]"),
        (["fine", "half \ud800"], "prompts[1]"),
    ],
)
def test_the_rest_is_refused(given, place) -> None:
    with pytest.raises(SpeccError) as caught:
        prompts_from_given(given)
    assert (caught.value.code, caught.value.place) == ("SPC716", place)


def test_params_stand_for_all_or_one_each() -> None:
    one, other = GenerationParams(seed=1), GenerationParams(seed=2)
    assert params_from_given(one, 2) == [one, one]
    assert params_from_given(None, 1) == [GenerationParams()]
    assert params_from_given((item for item in (one, other)), 2) == [one, other]


def test_numpy_numbers_and_single_stops_are_meant() -> None:
    (made,) = params_from_given(GenerationParams(seed=np.int64(7), temperature=np.float32(0.5), stop="x"), 1)
    assert (made.seed, type(made.seed), made.temperature, made.stop) == (7, int, 0.5, ("x",))
    (made,) = params_from_given(GenerationParams(temperature=1, stop=None), 1)
    assert (made.temperature, made.stop) == (1.0, ())


@pytest.mark.parametrize(
    ("values", "place"),
    [
        ({"max_new_tokens": 2.5}, "max_new_tokens"),
        ({"seed": 2.7}, "seed"),
        ({"top_k": True}, "top_k"),
        ({"gamma": "3"}, "gamma"),
        ({"temperature": "hot"}, "temperature"),
        ({"top_p": None, "min_p": []}, "min_p"),
        ({"stop": 5}, "stop"),
        ({"stop": ("a", 5)}, "stop"),
    ],
)
def test_params_of_another_type_are_refused(values, place) -> None:
    with pytest.raises(SpeccError) as caught:
        params_from_given(GenerationParams(**values), 1)
    assert (caught.value.code, caught.value.place) == ("SPC701", place)


@pytest.mark.parametrize("given", [{"seed": 1}, "params", 5, [{"seed": 1}]])
def test_params_are_params(given) -> None:
    with pytest.raises(SpeccError) as caught:
        params_from_given(given, 1)
    assert caught.value.code == "SPC701"
