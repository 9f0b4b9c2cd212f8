"""Strict conversion between frozen dataclasses and JSON: the form of every file in a bundle.

A record is a frozen dataclass whose fields are str, int, float, bool, None, literals, tuples, dicts with string
keys, unions of these, and other records. Decoding refuses unknown and missing keys and wrong types, with the path of
the field; nothing is coerced except int to float. pydantic is not used here because the runtime ships without it.
"""

from __future__ import annotations

import dataclasses
import json
import math
import sys
import types
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

from specc.bundle.failures import failure_from_os_error
from specc.errors import SpeccError

R = TypeVar("R")

_JSON_FILE: Final = "the files of a bundle are strict JSON"
_LARGEST_INT: Final = int(sys.float_info.max)
_SHOWN: Final = 80  # characters of a wrong value that an error repeats

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"


class RecordError(ValueError):
    """A JSON value does not have the record's form; `path` names the field, `problem` says what is wrong."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path or '(top)'}: {problem}")
        self.path = path
        self.problem = problem


def json_from_record(record: object) -> Json:
    """Return the JSON value of a record: fields in declaration order, tuples as lists."""
    if dataclasses.is_dataclass(record) and not isinstance(record, type):
        return {field.name: json_from_record(getattr(record, field.name)) for field in dataclasses.fields(record)}
    if isinstance(record, tuple | list):
        return [json_from_record(item) for item in record]
    if isinstance(record, dict):
        return {str(key): json_from_record(value) for key, value in record.items()}
    if record is None or isinstance(record, bool | int | float | str):
        return record
    raise TypeError(f"not a record value: {type(record).__name__}")


def record_from_json(kind: type[R], value: Json) -> R:
    """Return the record of the given dataclass that the JSON value states.

    Raises:
        RecordError: an unknown or missing key, or a value of another type, with the field's path.
    """
    decoded = _decode(kind, value, "")
    assert isinstance(decoded, kind)
    return decoded


def text_from_record(record: object) -> str:
    """Return the record as the text of its file: two-space indented JSON with a final newline."""
    return json.dumps(json_from_record(record), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def record_from_file(kind: type[R], path: Path) -> R:
    """Read a record from a JSON file.

    Raises:
        SpeccError: SPC601 the file is missing, SPC602 it is not such a record, SPC609 or SPC612 it cannot be read.
    """
    return record_from_document(kind, json_from_file(path), path)


def record_from_document(kind: type[R], document: Json, path: Path) -> R:
    """Return the record that the parsed content of a file states.

    Raises:
        SpeccError: SPC602 it is not such a record.
    """
    try:
        return record_from_json(kind, document)
    except (RecordError, RecursionError) as error:
        raise _malformed(path, str(error), f"{path.name} must have the form of {kind.__name__}") from None


def json_from_file(path: Path) -> Json:
    """Parse a JSON file strictly: no repeated keys, no numbers beyond a float's range, no halves of characters.

    Raises:
        SpeccError: SPC601 the file is missing, SPC602 it is not JSON, SPC609 or SPC612 it cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        raise SpeccError(
            "SPC601",
            str(path),
            f"there is no {path.name} here",
            "it is one of the files that make a bundle",
            "name the folder that `specc build` printed, or build it again",
        ) from None
    except UnicodeDecodeError as error:
        raise _malformed(path, f"it is not UTF-8 text: {error.reason} at byte {error.start}", _JSON_FILE) from None
    except OSError as error:
        raise failure_from_os_error(error, path) from error
    try:
        document: Json = json.loads(
            text, parse_constant=_refuse_constant, parse_float=_finite_float, object_pairs_hook=_object_without_repeats
        )
        if "\\ud" in text.lower():
            json.dumps(document, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise _malformed(path, "a string holds half of a surrogate pair", _JSON_FILE) from None
    except (ValueError, RecursionError) as error:
        raise _malformed(path, str(error), _JSON_FILE) from None
    return document


def _malformed(path: Path, got: str, why: str) -> SpeccError:
    return SpeccError("SPC602", str(path), got, why, "build the bundle again with this version of specc")


def _refuse_constant(name: str) -> Json:
    raise RecordError("", f"{name} is not JSON")


def _finite_float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise RecordError("", f"{_shown(text)} is beyond the range of a float")
    return value


def _object_without_repeats(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    content = dict(pairs)
    if len(content) != len(pairs):
        names = [name for name, _ in pairs]
        raise RecordError("", f"{_shown(next(name for name in names if names.count(name) > 1))} is stated twice")
    return content


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _decode(kind: Any, value: Any, path: str) -> Any:  # noqa: ANN401 - the shape of a type is a type hint
    if dataclasses.is_dataclass(kind):
        return _decode_fields(kind, value, path)
    origin = get_origin(kind)
    if origin is Literal:
        if any(value == choice and type(value) is type(choice) for choice in get_args(kind)):
            return value
        raise RecordError(path, f"got {_shown(value)}, known are {', '.join(map(repr, get_args(kind)))}")
    if origin in (Union, types.UnionType):
        return _decode_union(get_args(kind), value, path)
    if origin is tuple:
        return _decode_tuple(get_args(kind), value, path)
    if origin is dict:
        return _decode_dict(get_args(kind)[1], value, path)
    return _decode_scalar(kind, value, path)


def _decode_fields(kind: Any, value: Any, path: str) -> Any:  # noqa: ANN401
    if not isinstance(value, dict):
        raise RecordError(path, f"got {type(value).__name__}, expected the fields of {kind.__name__}")
    names = [field.name for field in dataclasses.fields(kind)]
    unknown = sorted(set(value) - set(names))
    if unknown:
        raise RecordError(path, f"unknown {', '.join(map(_shown, unknown))}; known are {', '.join(names)}")
    missing = [name for name in names if name not in value]
    if missing:
        raise RecordError(path, f"missing {', '.join(missing)}")
    hints = _hints(kind)
    prefix = f"{path}." if path else ""
    return kind(**{name: _decode(hints[name], value[name], prefix + name) for name in names})


def _decode_union(choices: tuple[Any, ...], value: Any, path: str) -> Any:  # noqa: ANN401
    tagged = {tag: choice for choice in choices for tag in _tags(choice)}
    if len(tagged) > 1 and isinstance(value, dict) and "kind" in value:
        tag = value["kind"]
        if not isinstance(tag, str) or tag not in tagged:
            place = f"{path}.kind" if path else "kind"
            raise RecordError(place, f"got {_shown(tag)}, known are {', '.join(map(repr, tagged))}")
        return _decode(tagged[tag], value, path)
    problems = []
    for choice in choices:
        try:
            return _decode(choice, value, path)
        except RecordError as error:
            problems.append(error)
    deepest = max(problems, key=lambda problem: len(problem.path))
    raise deepest


def _tags(choice: Any) -> tuple[str, ...]:  # noqa: ANN401
    hint = _hints(choice).get("kind") if isinstance(choice, type) and dataclasses.is_dataclass(choice) else None
    return get_args(hint) if get_origin(hint) is Literal else ()


def _decode_tuple(items: tuple[Any, ...], value: Any, path: str) -> tuple[Any, ...]:  # noqa: ANN401
    if not isinstance(value, list):
        raise RecordError(path, f"got {type(value).__name__}, expected a list")
    if len(items) == 2 and items[1] is Ellipsis:
        return tuple(_decode(items[0], item, f"{path}[{i}]") for i, item in enumerate(value))
    if len(items) != len(value):
        raise RecordError(path, f"got {len(value)} items, expected {len(items)}")
    return tuple(_decode(kind, item, f"{path}[{i}]") for i, (kind, item) in enumerate(zip(items, value, strict=True)))


def _decode_dict(item: Any, value: Any, path: str) -> dict[str, Any]:  # noqa: ANN401
    if not isinstance(value, dict):
        raise RecordError(path, f"got {type(value).__name__}, expected an object")
    return {key: _decode(item, entry, f"{path}.{key}" if path else key) for key, entry in value.items()}


def _decode_scalar(kind: Any, value: Any, path: str) -> Any:  # noqa: ANN401
    if kind is Any:
        return value
    if kind in (None, type(None)):
        if value is None:
            return None
    elif kind is float:
        if type(value) is float and math.isfinite(value):
            return value
        if type(value) is int and abs(value) <= _LARGEST_INT:
            return float(value)
    elif type(value) is kind:
        return value
    name = "null" if kind in (None, type(None)) else kind.__name__
    raise RecordError(path, f"got {_shown(value)}, expected {name}")
