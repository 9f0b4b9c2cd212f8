"""Records survive JSON exactly, and whatever else a file holds is one coded error."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from specc.bundle.certificate import Certificate
from specc.bundle.drafts import NgramDraftSpec, NoDraftSpec
from specc.bundle.lock import RecipeLock
from specc.bundle.manifest import Manifest
from specc.bundle.objects import ObjectRecord
from specc.bundle.record import (
    RecordError,
    json_from_record,
    record_from_document,
    record_from_file,
    record_from_json,
    text_from_record,
)
from specc.bundle.statistics import AcceptanceStatistics, Fallback
from specc.errors import SpeccError

KINDS = (Manifest, Certificate, RecipeLock, ObjectRecord, AcceptanceStatistics, Fallback)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
st.register_type_strategy(float, st.floats(allow_nan=False, allow_infinity=False))
RECIPES = st.dictionaries(st.text(), JSON, max_size=3)


def _records(kind: type) -> st.SearchStrategy:
    given_fields = {"recipe": RECIPES} if kind is Manifest else {}
    return st.builds(kind, **given_fields)


ANY_RECORD = st.one_of(*map(_records, KINDS))
SLOW_TO_DRAW = settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


@given(ANY_RECORD)
@SLOW_TO_DRAW
def test_text_and_back_is_the_record(record: object) -> None:
    assert record_from_json(type(record), json.loads(text_from_record(record))) == record


@given(ANY_RECORD, st.randoms(use_true_random=False), JSON)
@SLOW_TO_DRAW
def test_a_mutated_document_is_a_record_or_a_record_error(record: object, rng: random.Random, value: object) -> None:
    document = json.loads(text_from_record(record))
    _mutate(document, rng, value)
    with contextlib.suppress(RecordError):
        decoded = record_from_json(type(record), document)
        assert record_from_json(type(record), json_from_record(decoded)) == decoded


def _mutate(document: object, rng: random.Random, value: object) -> None:
    """Replace, remove or add something at a random place."""
    while isinstance(document, dict | list) and document:
        keys = list(document) if isinstance(document, dict) else range(len(document))
        key = rng.choice(list(keys))
        if isinstance(document[key], dict | list) and document[key] and rng.random() < 0.7:
            document = document[key]
        elif rng.random() < 0.5:
            document[key] = value
            return
        elif rng.random() < 0.5:
            del document[key]
            return
        else:
            document.update({"new": value}) if isinstance(document, dict) else document.append(value)
            return


@given(st.binary(max_size=200) | JSON.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_give_a_coded_error(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.json"
    path.write_bytes(content)
    with pytest.raises(SpeccError, match="SPC602"):
        record_from_file(Fallback, path)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"at_token": 1, "at_token": 2, "reason": ""}', "'at_token' is stated twice"),
        ('{"at_token": NaN, "reason": ""}', "NaN is not JSON"),
        ('{"at_token": 1e999, "reason": ""}', "'1e999' is beyond the range of a float"),
        ('{"at_token": 1, "reason": "\\ud800"}', "a string holds half of a surrogate pair"),
        ('{"at_token": true, "reason": ""}', "at_token: got True, expected int"),
        ('{"at_token": 1.0, "reason": ""}', "at_token: got 1.0, expected int"),
        ('{"at_token": 1, "reason": null}', "reason: got None, expected str"),
        ('{"at_token": 1}', "(top): missing reason"),
        ('{"at_token": 1, "reason": "", "more": 1}', "(top): unknown 'more'; known are at_token, reason"),
        ("[" * 100_000, "recursion"),
        ("1" * 5000, "integer string conversion"),
        ("", "Expecting value"),
    ],
)
def test_problems_are_named(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "fallback.json"
    path.write_text(text)
    with pytest.raises(SpeccError) as caught:
        record_from_file(Fallback, path)
    assert caught.value.code == "SPC602"
    assert problem in caught.value.got


@dataclasses.dataclass(frozen=True)
class _Numbers:
    value: float
    pair: tuple[int, str]
    draft: NgramDraftSpec | NoDraftSpec | None


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"value": 10**400}, "value: got 1000"),
        ({"pair": [1]}, "pair: got 1 items, expected 2"),
        ({"pair": [1, 2]}, "pair[1]: got 2, expected str"),
        ({"draft": {"kind": "eagle"}}, "draft.kind: got 'eagle', known are 'ngram', 'none'"),
        ({"draft": {"kind": "ngram", "min_ngram": 1}}, "draft: missing max_ngram"),
        ({"draft": {"kind": "none", "depth": 1}}, "draft: unknown 'depth'; known are kind"),
    ],
)
def test_unions_and_numbers(change: dict[str, object], problem: str) -> None:
    document = {"value": 1, "pair": [1, "a"], "draft": None}
    decoded = record_from_json(_Numbers, document)
    assert (decoded.value, type(decoded.value)) == (1.0, float)
    with pytest.raises(SpeccError) as caught:
        record_from_document(_Numbers, {**document, **change}, Path("numbers.json"))
    assert caught.value.got.startswith(problem)
    assert len(caught.value.got) < 200
