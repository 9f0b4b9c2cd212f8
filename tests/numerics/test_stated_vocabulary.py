"""Vocabularies that are read from tokenizer.json against those of the tokenizers library, which builds the model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_core import from_json
from tokenizers import Tokenizer

from specc.checkpoint import hf_tokenizer
from specc.checkpoint.hf_tokenizer import parts_from_folder
from specc.checkpoint.stated_vocabulary import shell_from_json, vocabulary_from_json
from specc.checkpoint.vocabulary import Vocabulary, differing_ids, vocabulary_from_tokenizer
from specc.errors import SpeccError
from tests.large_tokenizers import large_tokenizer, write_tokenizer_json
from tests.tiny_models import byte_tokenizer

SPELLINGS = ("a", "b", "ab", "aba", "##b", "<x>", "<y>", "", " ", "é", "▁", "\n", "[PAD3]", "\N{GRINNING FACE}")
tokens = st.sampled_from(SPELLINGS)
ids = st.integers(0, 9)
mapped = st.dictionaries(tokens, ids, max_size=6)
pieces = st.lists(st.tuples(tokens, st.floats(-9, 0)), max_size=6)
added_tokens = st.lists(
    st.fixed_dictionaries(
        {"id": ids, "content": tokens, "special": st.booleans(), "normalized": st.booleans()},
    ).map(lambda token: {"single_word": False, "lstrip": False, "rstrip": False} | token),
    max_size=5,
)


@st.composite
def bpe(draw: st.DrawFn) -> dict[str, Any]:
    """A byte-pair model, with merges of its tokens or of others, in either of the two forms."""
    vocab = draw(mapped)
    chosen = draw(st.lists(st.tuples(tokens, tokens), max_size=3)) if draw(st.booleans()) else _merges(vocab)
    as_text = draw(st.booleans())
    merges = [" ".join(pair) if as_text else list(pair) for pair in chosen]
    more = draw(st.sampled_from([{}, {"ignore_merges": True}, {"continuing_subword_prefix": "##"}, {"unk_token": "a"}]))
    return {"type": "BPE", "vocab": vocab, "merges": merges} | more


wordpiece = mapped.map(
    lambda vocab: {"type": "WordPiece", "vocab": vocab, "unk_token": "a", "continuing_subword_prefix": "##",
                   "max_input_chars_per_word": 100}
)  # fmt: skip
wordlevel = mapped.map(lambda vocab: {"type": "WordLevel", "vocab": vocab, "unk_token": "a"})
unigram = st.builds(
    lambda vocab, unknown: {"type": "Unigram", "vocab": vocab, "unk_id": unknown}, pieces, st.none() | st.integers(0, 6)
)
models = st.one_of(bpe(), wordpiece, wordlevel, unigram)


def _merges(vocab: dict[str, int]) -> list[tuple[str, str]]:
    return [(a, b) for a in vocab for b in vocab if a + b in vocab and a and b and " " not in a + b]


def content(model: dict[str, Any], added: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    return {"version": "1.0", "added_tokens": added or [], "model": model}


def by_the_library(text: str) -> Vocabulary | None:
    """Build the tokenizer; None where the library refuses it, also by a panic."""
    try:
        return vocabulary_from_tokenizer(Tokenizer.from_str(text))
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return None


def read(text: str) -> Vocabulary | None:
    """Read the vocabulary alone; None where the library has to judge."""
    parsed = from_json(text.encode(), allow_inf_nan=False)
    shell = shell_from_json(parsed)
    if shell is None or by_the_library(json.dumps(shell)) is None:
        return None
    return vocabulary_from_json(parsed, ())


@settings(max_examples=600, deadline=None)
@given(models, added_tokens)
def test_what_is_read_is_what_the_library_makes(model: dict[str, Any], added: list[dict[str, Any]]) -> None:
    text = json.dumps(content(model, added))
    ours = read(text)
    if ours is not None:
        assert ours == by_the_library(text)


@settings(max_examples=200, deadline=None)
@given(st.one_of(mapped, pieces), added_tokens, st.booleans())
def test_sound_models_are_read(vocab: Any, added: list[dict[str, Any]], as_text: bool) -> None:
    if isinstance(vocab, dict):
        vocab = {token: i for i, token in enumerate(vocab)}  # without holes
        merges = [" ".join(pair) if as_text else list(pair) for pair in _merges(vocab)]
        model = {"type": "BPE", "vocab": vocab, "merges": merges}
    else:
        model = {"type": "Unigram", "vocab": vocab, "unk_id": None}
    assert read(json.dumps(content(model, added))) is not None


DAMAGED = [
    {"type": "BPE", "vocab": {"a": -1}, "merges": []},
    {"type": "BPE", "vocab": {"a": 1.0}, "merges": []},
    {"type": "BPE", "vocab": {"a": True}, "merges": []},
    {"type": "BPE", "vocab": {"a": 2**32}, "merges": []},
    {"type": "BPE", "vocab": {"a": 0}, "merges": [["a", ["b"]]]},
    {"type": "BPE", "vocab": {"a": 0}, "merges": ["a", ["a", "a"]]},
    {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "aba": 3}, "merges": ["a b a"]},
    {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "aba": 3}, "merges": ["a b a", "ab"]},
    {"type": "BPE", "vocab": {"a": 0}, "merges": 3},
    {"type": "BPE", "vocab": {"a": 0}},
    {"type": "BPE", "vocab": {"a": 0}, "merges": [], "dropout": 2.0},
    {"type": "Unigram", "vocab": [["a"]], "unk_id": 0},
    {"type": "Unigram", "vocab": [["a", 0.0, 1]], "unk_id": 0},
    {"type": "Unigram", "vocab": [["a", "x"]], "unk_id": 0},
    {"type": "Unigram", "vocab": [["a", 0.0]], "unk_id": 1},
    {"type": "Unigram", "vocab": [["a", 0.0]], "unk_id": True},
    {"type": "Unigram", "vocab": {"a": 0}, "unk_id": 0},
    {"type": "WordPiece", "vocab": {"a": 0}},
    {"type": ["BPE"], "vocab": {"a": 0}, "merges": []},
    {"type": "Other", "vocab": {"a": 0}, "merges": []},
]


@pytest.mark.parametrize("model", DAMAGED, ids=lambda model: json.dumps(model)[:60])
def test_damaged_models_are_left_to_the_library(model: dict[str, Any], tmp_path: Path) -> None:
    assert read(json.dumps(content(model))) is None
    (tmp_path / "tokenizer.json").write_text(json.dumps(content(model)))
    with pytest.raises(SpeccError) as caught:
        parts_from_folder(tmp_path)
    assert caught.value.code == "SPC240"


@pytest.mark.parametrize(
    "model",
    [
        {"vocab": {"a": 0, "b": 3}, "merges": []},
        {"vocab": [["a", 0.0], ["b", -1.0]], "unk_id": 0},
        {"type": "BPE", "vocab": {"a": 0, "##b": 1, "ab": 2}, "merges": ["a ##b"], "continuing_subword_prefix": "##"},
        {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["#version: 0.2", "a b"]},
    ],
)
def test_older_and_rarer_forms_are_read_with_the_library(model: dict[str, Any], tmp_path: Path) -> None:
    added = [{"id": 9, "content": "<x>", "special": True, "single_word": False, "lstrip": False, "rstrip": False,
              "normalized": False}]  # fmt: skip
    text = json.dumps(content(model, added))
    (tmp_path / "tokenizer.json").write_text(text)
    expected = by_the_library(text)
    parts = parts_from_folder(tmp_path)
    assert read(text) is None
    assert parts.vocabulary == expected
    assert parts.tokenizer_from_files is not None
    assert vocabulary_from_tokenizer(parts.tokenizer_from_files()) == expected


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(ids, tokens, max_size=4), added_tokens)
def test_tokens_of_the_configuration_are_numbered_as_the_built_tokenizer_has_them(
    tmp_path_factory: pytest.TempPathFactory, stated: dict[int, str], added: list[dict[str, Any]]
) -> None:
    folder = tmp_path_factory.mktemp("t")
    model = {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}
    (folder / "tokenizer.json").write_text(json.dumps(content(model, added)))
    config = {"added_tokens_decoder": {str(i): {"content": token} for i, token in stated.items()}}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    try:
        parts, refused = parts_from_folder(folder), None
    except SpeccError as error:
        parts, refused = None, error.code
    if parts is None:
        assert refused == "SPC240"  # a stated id that the library would not give
        return
    assert parts.tokenizer_from_files is not None
    assert vocabulary_from_tokenizer(parts.tokenizer_from_files()) == parts.vocabulary


@pytest.mark.slow
@pytest.mark.parametrize("pairs", [False, True], ids=["merges as text", "merges as pairs"])
def test_a_tokenizer_of_real_size_is_read_without_building_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, pairs: bool
) -> None:
    whole = large_tokenizer()
    if pairs:
        whole["model"]["merges"] = [merge.split(" ") for merge in whole["model"]["merges"]]
    write_tokenizer_json(tmp_path / "tokenizer.json", whole)
    sizes = []
    build = hf_tokenizer._tokenizer_from_text
    monkeypatch.setattr(
        hf_tokenizer, "_tokenizer_from_text", lambda text, path: (sizes.append(len(text)), build(text, path))[1]
    )
    parts = parts_from_folder(tmp_path)
    assert max(sizes) < 100_000  # the added tokens, and no vocabulary
    assert parts.vocabulary == vocabulary_from_tokenizer(Tokenizer.from_file(str(tmp_path / "tokenizer.json")))


def test_ids_that_differ_are_those_of_other_tokens() -> None:
    ours = Vocabulary("BPE", {"a": 0, "b": 1, "c": 2, "[PAD3]": 3}, frozenset())
    theirs = Vocabulary("BPE", {"a": 0, "c": 1, "b": 2, "[PAD4]": 4}, frozenset())
    assert differing_ids(ours, theirs) == [1, 2]
    assert differing_ids(ours, Vocabulary("BPE", {"a": 0, "b": 1, "c": 2}, frozenset())) == []
    assert differing_ids(ours, Vocabulary("BPE", {"a": 0, "b": 1, "c": 2, "d": 3}, frozenset())) == [3]
    assert (ours.known_ids, ours.token_ids, ours.token_count) == (4, 3, 3)
    assert ours.tokens([1, 3]) == {1: "b"}


def test_identical_files_are_read_once(tmp_path: Path) -> None:
    for name in ("target", "draft"):
        (tmp_path / name).mkdir()
        byte_tokenizer().save(str(tmp_path / name / "tokenizer.json"))
    target, draft = (parts_from_folder(tmp_path / name) for name in ("target", "draft"))
    assert target.vocabulary is draft.vocabulary
    assert target.tokenizer_from_files is not None
    assert target.tokenizer_from_files is draft.tokenizer_from_files
    assert target.tokenizer_from_files() is target.tokenizer_from_files()
