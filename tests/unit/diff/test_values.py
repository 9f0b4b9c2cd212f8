from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from specc.diff.values import changes_of_values

KEYS = st.sampled_from("abc")
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 2)
    | st.sampled_from(["x", "ü"])
    | st.lists(st.integers(0, 2), max_size=2),
    lambda below: st.dictionaries(KEYS, below, max_size=3),
    max_leaves=8,
)
MAPPINGS = st.dictionaries(KEYS, VALUES, max_size=3)


def flat(value, key=""):
    if isinstance(value, dict) and value:
        return {k: v for name, below in value.items() for k, v in flat(below, f"{key}.{name}".lstrip(".")).items()}
    return {key: json.dumps(value, ensure_ascii=False)}


@given(MAPPINGS, MAPPINGS)
def test_applying_the_changes_turns_one_into_the_other(a, b):
    changed = flat(a)
    for change in changes_of_values(a, b):
        assert changed.get(change.key) == change.a != change.b
        changed.pop(change.key, None)
        if change.b is not None:
            changed[change.key] = change.b
    assert changed == flat(b)


@given(MAPPINGS)
def test_equal_values_have_no_change(a):
    assert changes_of_values(a, json.loads(json.dumps(a))) == ()
