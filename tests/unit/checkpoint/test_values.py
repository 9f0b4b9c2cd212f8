"""Typed getters: a value of the right type or one coded error with the key's full place."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specc.checkpoint.values import Values, values_from_json_file
from specc.errors import SpeccError

ANYTHING = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.lists(st.integers(), max_size=2)
)


@given(ANYTHING)
def test_getters_return_their_type_or_refuse(value: object) -> None:
    values = Values(Path("f.json"), {"k": value}, "a.")
    getters = {int: values.integer, float: values.number, bool: values.boolean, str: values.text}
    for kind, getter in getters.items():
        try:
            found = getter("k")
        except SpeccError as error:
            refused = error
        else:
            assert type(found) is kind
            assert found == kind(value)
            continue
        assert (refused.code, refused.place) == ("SPC210", "f.json a.k")


def test_defaults_take_the_place_of_null() -> None:
    values = Values(Path("f.json"), {"null": None})
    assert values.integer("null", 3) == 3
    assert values.number("absent", 0.5) == 0.5
    assert values.boolean("null", False) is False
    assert values.nested("null") is values.texts("null") is None
    assert "null" not in values


def test_ranges() -> None:
    values = Values(Path("f.json"), {"zero": 0, "big": 10**400, "ids": [3, -1, 2], "true": [True]})
    assert values.integer("zero", least=0) == 0
    assert values.number("zero", least=0, open_end=False) == 0.0
    assert values.ids("ids") == (3, 2)
    for call in (
        lambda: values.integer("zero"),
        lambda: values.number("zero", least=0),
        lambda: values.number("big"),
        lambda: values.ids("big"),
        lambda: values.ids("true"),
    ):
        with pytest.raises(SpeccError):
            call()


@pytest.mark.parametrize("text", ["", "[", "[]", "3", '{"a": ' + "[" * 100_000, "9" * 5000, '"' + "x"])
def test_files_that_are_no_objects(tmp_path: Path, text: str) -> None:
    (tmp_path / "f.json").write_text(text)
    with pytest.raises(SpeccError) as caught:
        values_from_json_file(tmp_path / "f.json")
    assert caught.value.code == "SPC210"
    assert len(caught.value.got) < 200


def test_constants_of_json_are_read_and_refused_by_type(tmp_path: Path) -> None:
    (tmp_path / "f.json").write_text('{"a": Infinity, "b": NaN}')
    values = values_from_json_file(tmp_path / "f.json")
    assert values.mapping["a"] == math.inf
    with pytest.raises(SpeccError):
        values.number("b")
