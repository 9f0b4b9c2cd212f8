"""Differences between two JSON values, key by key."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from specc.bundle.record import Json
from specc.diff.comparison import Change


def changes_of_values(a: Json, b: Json) -> tuple[Change, ...]:
    """Return what differs, by dotted key in order; lists are compared as wholes."""
    flat_a, flat_b = dict(_leaves(a, "")), dict(_leaves(b, ""))
    return tuple(
        Change(key, flat_a.get(key), flat_b.get(key))
        for key in sorted({*flat_a, *flat_b})
        if flat_a.get(key) != flat_b.get(key)
    )


def _leaves(value: Json, key: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping) and value:
        for name, below in value.items():
            yield from _leaves(below, f"{key}.{name}" if key else name)
    else:
        yield key, json.dumps(value, ensure_ascii=False)
