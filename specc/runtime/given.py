"""What callers hand in, before anything is made of it: every form that is meant, and one coded error for the rest."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Iterable
from typing import Final, SupportsIndex, TypeAlias

import numpy as np

from specc.errors import SpeccError
from specc.runtime.params import GenerationParams

GivenPrompt: TypeAlias = str | tuple[int, ...]

_WHOLE: Final = ("max_new_tokens", "top_k", "seed", "gamma")
_REAL: Final = ("temperature", "top_p", "min_p")


def prompts_from_given(prompts: object) -> list[GivenPrompt]:
    """Return the prompts of a call: one text, one row of ids, or an iterable of these.

    Ids may be any integers, those of NumPy included; booleans and fractions are refused, not converted.

    Raises:
        SpeccError: SPC716 something else stands there.
    """
    if isinstance(prompts, str):
        return [prompts]
    if not isinstance(prompts, Iterable):
        raise _no_prompt("prompts", prompts)
    items = list(prompts)
    ids = [_whole(item) for item in items]
    if items and all(item is not None for item in ids):
        return [tuple(item for item in ids if item is not None)]
    return [prompt_from_given(item, f"prompts[{index}]") for index, item in enumerate(items)]


def prompt_from_given(prompt: object, place: str) -> GivenPrompt:
    """Return one prompt: text, or token ids.

    Raises:
        SpeccError: SPC716 it is neither, or text with half a surrogate pair.
    """
    if isinstance(prompt, str):
        return whole_text(prompt, place)
    if not isinstance(prompt, Iterable) or isinstance(prompt, bytes | bytearray | dict):
        raise _no_prompt(place, prompt)
    ids = []
    for index, item in enumerate(prompt):
        token = _whole(item)
        if token is None:
            raise _no_prompt(f"{place}[{index}]", item)
        ids.append(token)
    return tuple(ids)


def whole_text(text: str, place: str) -> str:
    """Return a text that has a UTF-8 form.

    Raises:
        SpeccError: SPC716 it has half a surrogate pair: bytes that were no UTF-8, or a broken escape.
    """
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise SpeccError(
            "SPC716",
            place,
            f"character {error.start} is {text[error.start]!a}, half of a surrogate pair",
            "tokenizers read UTF-8, and it has no such character",
            "decode the bytes with the encoding they are in",
        ) from None
    return text


def params_from_given(params: object, count: int) -> list[GenerationParams]:
    """Return the parameters of each of `count` prompts.

    Raises:
        SpeccError: SPC701 a value of another type, SPC712 another number of them.
    """
    if params is None:
        params = GenerationParams()
    if isinstance(params, GenerationParams):
        return [_typed(params)] * count
    if not isinstance(params, Iterable) or isinstance(params, str | dict):
        raise _wrong_type("params", params, "GenerationParams, or a list of them")
    given = [_typed(item) for item in params]
    if len(given) != count:
        raise SpeccError(
            "SPC712",
            "params",
            f"{len(given)} parameters for {count} prompts",
            "a list of parameters has one entry a prompt",
            "give one for all, or as many as there are prompts",
        )
    return given


def _typed(params: object) -> GenerationParams:
    """Return the parameters with NumPy numbers as Python's and a single stop string as a tuple."""
    if not isinstance(params, GenerationParams):
        raise _wrong_type("params", params, "GenerationParams")
    values: dict[str, object] = dict(vars(params))
    for name in _WHOLE:
        if values[name] is not None:
            number = _whole(values[name])
            if number is None:
                raise _wrong_type(name, values[name], "a whole number")
            values[name] = number
    for name in _REAL:
        if values[name] is not None:
            values[name] = _real(name, values[name])
    return dataclasses.replace(params, **{**values, "stop": _stops(values["stop"])})  # type: ignore[arg-type]


def _stops(given: object) -> tuple[str, ...]:
    if given is None:
        return ()
    texts = [given] if isinstance(given, str) else list(given) if isinstance(given, Iterable) else [given]
    stops = tuple(text for text in texts if isinstance(text, str))
    if len(stops) != len(texts):
        raise _wrong_type("stop", given, "a text, or several")
    return stops


def _real(name: str, value: object) -> float:
    if isinstance(value, bool | str | bytes):
        raise _wrong_type(name, value, "a number")
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise _wrong_type(name, value, "a number") from None


def _whole(value: object) -> int | None:
    """Return a whole number, NumPy's included, as an int; None for anything else, booleans included."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, SupportsIndex):
        return None
    try:
        return operator.index(value)
    except TypeError:  # an array of several numbers has the method, too
        return None


def _wrong_type(field: str, value: object, allowed: str) -> SpeccError:
    return SpeccError(
        "SPC701", field, f"{value!r}"[:200], f"allowed is {allowed}", f"give {field} {allowed}, or leave it out"
    )


def _no_prompt(place: str, value: object) -> SpeccError:
    return SpeccError(
        "SPC716",
        place,
        f"{value!r}"[:200],
        "a prompt is a text, or a row of token ids, which are whole numbers",
        "encode it with the bundle's tokenizer, or give the text itself",
    )
