"""SentencePiece vocabularies against a plain score-driven merger; splitting rules against transformers' patterns."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers
from transformers.integrations.gguf import gguf_tokenizer_mapping
from transformers.models.qwen2.tokenization_qwen2 import PRETOKENIZE_REGEX

from specc.checkpoint.gguf_tokenizer import SPACE, parts_from_metadata
from specc.checkpoint.tokenizer_parts import TokenizerParts
from specc.checkpoint.values import Values

CORPUS = [
    "the cat sat on the mat, that the hat had",
    "a banana and an ananas",
    "naïve café, 12 132 1231",
    "in  the   end",
]
WORDS = [
    "the",
    "banana",
    "ananas",
    "cat",
    " ",
    "  ",
    "that",
    "12",
    "é",
    "ï",
    "你",
    "🙂",
    "\n",
    "</s>",
    "<s>",
    "x",
    "an",
]


def pieces() -> tuple[list[str], list[float], list[int]]:
    """Return tokens, scores and types as a SentencePiece BPE model has them: specials, bytes, then learned pieces."""
    learner = Tokenizer(models.BPE())
    trainer = trainers.BpeTrainer(vocab_size=120, show_progress=False)
    learner.train_from_iterator([SPACE + text.replace(" ", SPACE) for text in CORPUS], trainer)
    known = learner.get_vocab()
    learned = sorted(known, key=lambda token: (len(token) == 1, known[token]))
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *learned]
    scores = [0.0] * 259 + [-float(i) for i in range(len(learned))]
    return tokens, scores, [2, 3, 3, *[6] * 256, *[1] * len(learned)]


def sentencepiece(**more: object) -> TokenizerParts:
    tokens, scores, types = pieces()
    metadata = {"model": "llama", "tokens": tokens, "scores": scores, "token_type": types, "bos_token_id": 1}
    return parts_from_metadata(Values(Path("m.gguf"), {f"tokenizer.ggml.{k}": v for k, v in (metadata | more).items()}))


def merged_by_score(text: str) -> list[str]:
    """Return the pieces of a stretch of text: the best-scored adjacent pair is joined, leftmost first, while any is."""
    tokens, scores, _ = pieces()
    score = dict(zip(tokens[259:], scores[259:], strict=True))
    symbols = list(text)
    while True:
        pairs = [(score[a + b], -i) for i, (a, b) in enumerate(itertools.pairwise(symbols)) if a + b in score]
        if not pairs:
            break
        at = -max(pairs)[1]
        symbols[at : at + 2] = [symbols[at] + symbols[at + 1]]
    known = set(score)
    return [t for s in symbols for t in ([s] if s in known else [f"<0x{byte:02X}>" for byte in s.encode()])]


@given(st.lists(st.sampled_from(WORDS), max_size=8).map("".join) | st.text(max_size=12))
@settings(max_examples=200)
def test_sentencepiece_merges_by_score(text: str) -> None:
    expected: list[str] = []
    for i, stretch in enumerate(text.replace("<s>", "\0<s>\0").replace("</s>", "\0</s>\0").split("\0")):
        if "\0" in text:
            return
        if i % 2:
            expected.append(stretch)
        elif stretch:
            expected += merged_by_score(SPACE + stretch.replace(" ", SPACE))
    assert sentencepiece().tokenizer_from_files().encode(text).tokens == expected


@given(st.lists(st.sampled_from([w for w in WORDS if "s>" not in w]), max_size=8).map("".join) | st.text(max_size=12))
@settings(max_examples=100)
def test_sentencepiece_decodes_what_it_encoded(text: str) -> None:
    # the format spells a space with this character, so a text that has it comes back with a space
    expected = text.replace(SPACE, " ")
    tokenizer = sentencepiece().tokenizer_from_files()
    assert tokenizer.decode(tokenizer.encode(text).ids, skip_special_tokens=False) == expected
    bare = sentencepiece(add_space_prefix=False).tokenizer_from_files()
    assert bare.decode(bare.encode(text).ids, skip_special_tokens=False) == expected


def test_rules_of_sentencepiece_files() -> None:
    parts = sentencepiece()
    assert (parts.add_bos, parts.bos_id, parts.known_ids) == (True, 1, len(pieces()[0]))
    assert not sentencepiece(add_bos_token=False).add_bos
    assert sentencepiece(add_space_prefix=False).tokenizer_from_files().encode("the").tokens[0] != SPACE + "the"


def byte_level(**more: object) -> TokenizerParts:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    metadata = {"model": "gpt2", "tokens": [*alphabet, "ab", "bc", "abc"], "merges": ["b c", "a bc"], "bos_token_id": 0}
    return parts_from_metadata(Values(Path("m.gguf"), {f"tokenizer.ggml.{k}": v for k, v in (metadata | more).items()}))


TEXTS = st.text(max_size=30) | st.lists(
    st.sampled_from(
        ["I'm", "WE'LL", " x", "  ", "123456", "\n\n", "\r\n ", "¿?", "…!\n", "é1", "٣٤", " \t", "'s", "_a"]
    ),
    max_size=8,
).map("".join)


@given(TEXTS)
@settings(max_examples=200)
def test_splitting_as_transformers_states_it(text: str) -> None:
    patterns = {"llama-bpe": gguf_tokenizer_mapping.GGUF_PRE_TOKENIZER_SPLITS["llama-bpe"], "qwen2": PRETOKENIZE_REGEX}
    for name, pattern in patterns.items():
        expected = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(pattern), behavior="isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
        ours = byte_level(pre=name).tokenizer_from_files().pre_tokenizer
        assert ours.pre_tokenize_str(text) == expected.pre_tokenize_str(text)
    gpt2 = pre_tokenizers.ByteLevel(add_prefix_space=False)
    assert byte_level(pre="gpt-2").tokenizer_from_files().pre_tokenizer.pre_tokenize_str(text) == gpt2.pre_tokenize_str(
        text
    )


def test_rules_of_byte_level_files() -> None:
    assert byte_level(pre="llama-bpe").add_bos
    assert not byte_level(pre="llama-bpe", add_bos_token=False).add_bos
    assert not byte_level(pre="qwen2").add_bos
    # Llama 3 takes a piece that is a token whole; the others merge by rank: b+c comes before any a+b
    assert byte_level(pre="llama-bpe", merges=[]).tokenizer_from_files().encode("abc").tokens == ["abc"]
    assert byte_level(pre="gpt-2").tokenizer_from_files().encode("abcab").tokens == ["abc", "a", "b"]
    assert (
        byte_level(pre="qwen2").tokenizer_from_files().encode("e\u0301").ids
        == byte_level(pre="qwen2").tokenizer_from_files().encode("é").ids
    )
    assert (
        byte_level(pre="gpt-2").tokenizer_from_files().encode("e\u0301").ids
        != byte_level(pre="gpt-2").tokenizer_from_files().encode("é").ids
    )


@pytest.mark.parametrize("kind", [3, 4])
def test_added_tokens_stay_whole(kind: int) -> None:
    tokens = [*sorted(pre_tokenizers.ByteLevel.alphabet()), "<think>"]
    parts = byte_level(pre="gpt-2", tokens=tokens, merges=[], token_type=[1] * 256 + [kind])
    assert parts.tokenizer_from_files().encode("a<think>b").ids[1] == 256
    assert len(parts.tokenizer_from_files().encode("a<think>b").ids) == 3
    kept = parts.tokenizer_from_files().decode([256], skip_special_tokens=True)
    assert kept == ("" if kind == 3 else "<think>")
