"""An edit changes one value of the text and nothing else of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specc.recipe.edit import text_with_value
from specc.recipe.tree import tree_from_text

TEXT = """\
# above
gamma: 4   # four
backend: {name: tensorrt-llm, flow: engine} # flow
limits:
  # inner
  max_batch: 4

  max_input: "7" # quoted
draft: ngram
list: [1,
  2]
"""


@pytest.mark.parametrize(
    ("path", "value", "old", "new"),
    [
        (("gamma",), "3", "gamma: 4   # four", "gamma: 3   # four"),
        (("backend", "flow"), "serve", "flow: engine} # flow", "flow: serve} # flow"),
        (("backend", "version"), '"1.2.1"', "flow: engine}", 'flow: engine, version: "1.2.1"}'),
        (("limits", "max_input"), "8", 'max_input: "7" # quoted', "max_input: 8 # quoted"),
        (("limits", "max_output"), "9", "  max_batch: 4", "  max_output: 9\n  max_batch: 4"),
        (("acceptance",), "greedy", "gamma: 4", "acceptance: greedy\ngamma: 4"),
    ],
)
def test_one_value_changes(path, value, old, new) -> None:
    for end in ("\n", "\r\n"):
        text = TEXT.replace("\n", end)
        edited = text_with_value(text, path, value)
        assert edited is not None
        assert edited.replace(end, "\n") == TEXT.replace(old, new)


@pytest.mark.parametrize("path", [("draft", "kind"), ("list",), ("limits", "a", "b"), ("none", "a")])
def test_what_cannot_be_done_in_one_place_is_left(path) -> None:
    assert text_with_value(TEXT, path, "1") is None


def test_a_value_that_another_key_shares_is_left() -> None:
    assert text_with_value("a: &x {k: 1}\nb: *x\n", ("b", "k"), "2") is None


WORDS = st.text("abcxyz", min_size=1, max_size=4)


@given(st.dictionaries(WORDS, st.one_of(st.integers(0, 99), st.dictionaries(WORDS, st.integers(0, 9), min_size=1))),
       st.data())  # fmt: skip
def test_the_tree_differs_in_that_value_alone(mapping, data) -> None:
    lines = []
    for key, value in mapping.items():
        if isinstance(value, dict):
            lines += [f"{key}: # c", *(f"  {name}: {number}" for name, number in value.items())]
        else:
            lines.append(f"{key}: {value} # c")
    text = "\n".join(["# top", *lines, ""])
    key = data.draw(st.sampled_from(sorted(mapping))) if mapping else "a"
    inner = mapping.get(key)
    path = (key, data.draw(WORDS)) if isinstance(inner, dict) else (key,)
    edited = text_with_value(text, path, "1234")
    if not mapping:
        assert edited is None
        return
    assert edited is not None
    wanted = {**mapping, key: {**inner, path[1]: 1234} if isinstance(inner, dict) else 1234}
    assert tree_from_text(edited, "t").value == wanted
    assert edited.count("#") == text.count("#")
