"""Digests against hashlib, and keys that never collide by form."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specc.bundle.digests import key_from_parts, sha256_from_file
from specc.errors import SpeccBug, SpeccError

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
PARTS = st.dictionaries(st.text(), VALUES, max_size=3)


def test_digest_of_several_chunks_with_progress(tmp_path: Path) -> None:
    path = tmp_path / "big"
    path.write_bytes(os.urandom(1 << 20) * 130 + b"end")
    told: list[tuple[str, int, int]] = []
    digest = sha256_from_file(path, lambda what, done, total: told.append((what, done, total)))
    assert digest == hashlib.sha256(path.read_bytes()).hexdigest()
    size = (130 << 20) + 3
    assert told == [(str(path), 64 << 20, size), (str(path), 128 << 20, size)]


def test_what_is_no_regular_file_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        with pytest.raises(SpeccError, match="SPC612"):
            sha256_from_file(path)


@given(PARTS, PARTS)
def test_keys_are_equal_only_for_equal_parts(first: dict[str, object], second: dict[str, object]) -> None:
    assert key_from_parts(first) == key_from_parts(dict(reversed(first.items())))
    assert (key_from_parts(first) == key_from_parts(second)) == (repr(_sorted(first)) == repr(_sorted(second)))


def _sorted(value: object) -> object:
    if isinstance(value, dict):
        return [(key, _sorted(value[key])) for key in sorted(value)]
    return tuple(map(_sorted, value)) if isinstance(value, list) else value


def test_key_keeps_its_value() -> None:
    """The key is part of the form of every store: a change of it orphans what users have built."""
    text = 'specc key 1\n{"a":[1,2.0,null],"b":{"c":"\\u00e9"}}'
    assert key_from_parts({"b": {"c": "é"}, "a": (1, 2.0, None)}) == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize(
    "parts", [{"a": {1: 2}}, {"a": [float("nan")]}, {"a": float("inf")}, {"a": Path("b")}, {"a": b""}]
)
def test_values_that_json_would_blur_are_our_bug(parts: dict[str, object]) -> None:
    with pytest.raises(SpeccBug, match=r"parts\.a"):
        key_from_parts(parts)
