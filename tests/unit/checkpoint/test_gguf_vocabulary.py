"""Token lists of GGUF files that are padded, contradict each other, or need what specc does not know."""

from __future__ import annotations

from pathlib import Path

import pytest

from specc.checkpoint.gguf_tokenizer import parts_from_metadata
from specc.checkpoint.gguf_vocabulary import vocabulary_from_metadata
from specc.checkpoint.tokenizer_parts import TokenizerParts
from specc.checkpoint.values import Values
from specc.errors import SpeccError

BASE: dict[str, object] = {
    "model": "gpt2",
    "pre": "gpt-2",
    "tokens": ["a", "b", "ab", "<x>", "[PAD4]"],
    "token_type": [1, 1, 1, 3, 5],
    "merges": ["a b"],
    "bos_token_id": 3,
}
PIECES = {"model": "llama", "scores": [0.0, -1.0, -2.0, 0.0, 0.0], "merges": None}


def values(**keys: object) -> Values:
    return Values(Path("m.gguf"), {f"tokenizer.ggml.{k}": v for k, v in (BASE | keys).items() if v is not None})


def parts(**keys: object) -> TokenizerParts:
    return parts_from_metadata(values(**keys))


def test_unused_tokens_at_the_end_are_padding() -> None:
    assert vocabulary_from_metadata(values()).tokens == ("a", "b", "ab", "<x>")
    assert parts().known_ids == 4
    # in the middle they keep their id
    assert parts(token_type=[1, 5, 1, 3, 5]).known_ids == 4


def test_end_ids_are_a_union() -> None:
    found = parts(eos_token_id=3, eot_token_id=1, eom_token_id=3)
    assert (found.stop_ids, found.eos_id, found.bos_id) == ((1, 3), 3, 3)


@pytest.mark.parametrize("model", [None, "none", "no_vocab"])
def test_files_without_a_tokenizer(model: str | None) -> None:
    found = parts(model=model)
    assert (found.vocabulary, found.known_ids, found.stop_ids) == (None, None, ())


@pytest.mark.parametrize(
    ("keys", "code", "place"),
    [
        ({"tokens": None}, "SPC240", "tokens"),
        ({"tokens": "abc"}, "SPC210", "tokens"),
        ({"tokens": ["a", "a", "b", "c", "d"]}, "SPC240", "tokens"),
        ({"token_type": [1]}, "SPC240", "token_type"),
        ({"token_type": [1, 1, 1, 9, 5]}, "SPC240", "token_type"),
        ({"token_type": [1.0] * 5}, "SPC240", "token_type"),
        ({"token_type": [5] * 5}, "SPC240", "token_type"),
        ({"merges": ["ab"]}, "SPC240", "merges"),
        ({"merges": ["a b c"]}, "SPC240", "merges"),
        ({"merges": ["a z"]}, "SPC240", "merges"),
        ({"pre": None}, "SPC241", "pre"),
        ({"pre": "tekken"}, "SPC241", "pre"),
        ({"model": "t5"}, "SPC241", "model"),
        ({"add_eos_token": True}, "SPC241", "add_eos_token"),
        ({"add_bos_token": True, "bos_token_id": None}, "SPC240", "bos_token_id"),
        (PIECES | {"scores": None}, "SPC240", "scores"),
        (PIECES | {"scores": [0.0]}, "SPC240", "scores"),
        (PIECES | {"scores": [float("nan")] * 5}, "SPC240", "scores"),
        (PIECES | {"tokens": ["a", "b", "z" * 600, "<x>", "p"]}, "SPC240", "tokens"),
        (PIECES | {"unknown_token_id": 9}, "SPC240", "unknown_token_id"),
        (PIECES | {"precompiled_charsmap": [1, 2]}, "SPC241", "precompiled_charsmap"),
        (PIECES | {"remove_extra_whitespaces": True}, "SPC241", "remove_extra_whitespaces"),
    ],
)
def test_contradictions_are_refused(keys: dict[str, object], code: str, place: str) -> None:
    with pytest.raises(SpeccError) as caught:
        parts(**keys)
    assert caught.value.code == code
    assert caught.value.place == f"m.gguf tokenizer.ggml.{place}"
