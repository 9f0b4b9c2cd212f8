"""The vocabulary that a tokenizer.json states, read without building the tokenizer.

Only plain forms are read. Of every other one, and of whatever looks damaged, the library that builds it is the judge.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, repeat
from typing import Any, Final

from specc.checkpoint.stated_tokens import StatedToken
from specc.checkpoint.vocabulary import Vocabulary

MAX_U32: Final = 2**32 - 1
MAX_F64: Final = sys.float_info.max


def vocabulary_from_json(content: Mapping[str, Any], stated: Sequence[StatedToken]) -> Vocabulary | None:
    """Return the vocabulary that a tokenizer.json states; None for a form that only the library can judge.

    Args:
        content: of the file, parsed strictly: no lone surrogates, no NaN; all of it but the model's vocabulary and
            merges was accepted by the library (`shell_from_json`).
        stated: tokens of tokenizer_config.json.

    Checked by: tests/numerics/test_stated_vocabulary.py
    """
    model = content["model"]
    ids = MODELS[model["type"]](model)
    if ids is None:
        return None
    added = _numbered(ids, len(model["vocab"]), (token["content"] for token in content.get("added_tokens") or []), {})
    if added is not None:
        missing = [token.content for token in stated if (ids | added).get(token.content) != token.token_id]
        added = _numbered(ids, len(model["vocab"]), missing, added)
    return None if added is None else Vocabulary(model["type"], ids | added, frozenset(added.values()))


def _numbered(
    ids: Mapping[str, int], size: int, tokens: Iterable[str], before: Mapping[str, int]
) -> dict[str, int] | None:
    """Return the ids of added tokens: those of the model, or the next free one, whatever id a file states beside them.

    Versions of the library differ in what is free where the model's ids have holes: None.
    """
    added = dict(before)
    has_holes = max(ids.values(), default=-1) >= size
    free = max([size, *(i + 1 for i in added.values())])
    for token in tokens:
        if not token or token in added:
            continue
        if has_holes and token not in ids:
            return None
        added[token] = ids.get(token, free)
        free = max(free, added[token] + 1)
    return added


def shell_from_json(content: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a tokenizer.json with a model of no more than one token: the library judges the rest by it in no time.

    None where there is no such model.
    """
    model = content.get("model")
    if not isinstance(model, dict) or not isinstance(model.get("vocab"), dict | list):
        return None
    if not isinstance(model.get("type"), str) or model["type"] not in MODELS:
        return None
    if model["type"] == "Unigram":
        unknown = None if model.get("unk_id") is None else 0
        return {**content, "model": {**model, "vocab": [["a", 0.0]], "unk_id": unknown}}
    merges: dict[str, list[str]] = {"merges": []} if "merges" in model else {}
    return {**content, "model": {**model, "vocab": {}, **merges}}


def merges_fit(ids: Mapping[str, int], merges: Sequence[str]) -> bool:
    """Return whether every merge is two tokens with a space between, which together make a token.

    In whole sets: a vocabulary has hundreds of thousands of merges.
    """
    if not set(map(str.count, merges, repeat(" "))) <= {1}:
        return False
    parts = set(" ".join(merges).split(" ")) if merges else set()
    return parts <= ids.keys() and set(map(str.replace, merges, repeat(" "), repeat(""))) <= ids.keys()


def _bpe_ids(model: Mapping[str, Any]) -> dict[str, int] | None:
    ids, merges = _mapped_ids(model), model["merges"]
    # a prefix of inner parts is cut off where parts are joined
    if ids is None or not isinstance(merges, list) or model.get("continuing_subword_prefix"):
        return None
    kinds = set(map(type, merges))
    if kinds <= {str}:
        return ids if merges_fit(ids, merges) else None
    return ids if kinds == {list} and _pairs_fit(ids, merges) else None


def _pairs_fit(ids: Mapping[str, int], merges: list[list[Any]]) -> bool:
    """Return the same of merges that are written as pairs."""
    if set(map(len, merges)) != {2} or set(map(type, chain.from_iterable(merges))) != {str}:
        return False
    return set(chain.from_iterable(merges)) <= ids.keys() and {a + b for a, b in merges} <= ids.keys()


def _mapped_ids(model: Mapping[str, Any]) -> dict[str, int] | None:
    ids = model["vocab"]
    if not isinstance(ids, dict) or set(map(type, ids.values())) - {int}:
        return None
    return ids if not ids or (min(ids.values()) >= 0 and max(ids.values()) <= MAX_U32) else None


def _unigram_ids(model: Mapping[str, Any]) -> dict[str, int] | None:
    entries, unknown = model["vocab"], model.get("unk_id")
    if not isinstance(entries, list) or not all(map(_is_piece, entries)):
        return None
    if unknown is not None and (type(unknown) is not int or not 0 <= unknown < len(entries)):
        return None
    return {piece: i for i, (piece, _) in enumerate(entries)}


def _is_piece(entry: object) -> bool:
    return (
        isinstance(entry, list)
        and len(entry) == 2
        and type(entry[0]) is str
        and type(entry[1]) in (float, int)
        and -MAX_F64 <= entry[1] <= MAX_F64
    )


MODELS: Final[dict[str, Callable[[Mapping[str, Any]], dict[str, int] | None]]] = {
    "BPE": _bpe_ids,
    "WordPiece": _mapped_ids,
    "WordLevel": _mapped_ids,
    "Unigram": _unigram_ids,
}
"""Ids by spelling of each kind of model; None where the library has to judge."""
